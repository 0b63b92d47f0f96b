import { describe, expect, onTestFinished, test } from 'vitest'
import { startReceiver } from '../support/receiver.ts'
import { ninePsbFixture, TRANSFERS } from './9psb-fixture.ts'
import { signal } from './fixture.ts'
import { describeTransfers, transferOrder, transfersOf } from './transfer-guarantees.ts'

async function start(env: Readonly<Record<string, string>> = {}) {
  const { bank, connector } = await ninePsbFixture({}, { ...TRANSFERS, ...env })
  return { transfers: transfersOf(connector), fake: bank.transfers }
}

describeTransfers(start, (baseUrl) => start({ BANK_9PSB_TRANSFER_BASE_URL: baseUrl }))

test('no money goes out without the settings of transfers', async () => {
  const { connector } = await ninePsbFixture()
  expect(connector.transfers).toBeUndefined()
})

describe('the token', () => {
  test('is renewed once if the bank no longer accepts it', async () => {
    const { transfers, fake } = await start()
    const [first, second] = [transferOrder(), transferOrder()]
    await transfers.send(first, signal)
    fake.expireTokens()
    expect(await transfers.send(second, signal)).toMatchObject({ kind: 'paid' })
    expect(fake.requests).toMatchObject({ authenticate: 2, send: 3 })
    expect(fake.book.transfers.get(second.reference)?.debits).toBe(1)
  })

  test('that is not renewed after the bank refused the transfer leaves its result unknown', async () => {
    const { transfers, fake } = await start()
    await transfers.send(transferOrder(), signal)
    fake.expireTokens()
    fake.faults.add('authenticate', '500')
    expect(await transfers.send(transferOrder(), signal)).toMatchObject({ kind: 'unknown' })
    expect(fake.requests.send).toBe(2)
  })

  test('that is renewed too late for a second call leaves the result of the first one unknown', async () => {
    const receiver = await startReceiver()
    onTestFinished(() => receiver.close())
    const { transfers } = await start({ BANK_9PSB_TRANSFER_BASE_URL: receiver.url })
    const late = new AbortController()
    let issued = 0
    receiver.answer(({ path }) => {
      if (!path.endsWith('/authenticate')) return { status: 401 }
      issued += 1
      if (issued === 2) late.abort()
      return { status: 200, body: JSON.stringify({ accessToken: 'token', expiresIn: '7200' }) }
    })
    expect(await transfers.send(transferOrder(), late.signal)).toMatchObject({ kind: 'unknown' })
    expect([issued, receiver.requests.length]).toEqual([2, 3])
  })

  test('that the bank does not issue means that nothing was sent', async () => {
    const { transfers, fake } = await start()
    fake.faults.add('authenticate', '500')
    expect(await transfers.send(transferOrder(), signal)).toEqual({
      kind: 'not sent',
      cause: expect.stringMatching(/^authenticate: HTTP 500/),
    })
    expect(fake.requests.send).toBe(0)
  })

  test('is not issued for wrong credentials, and nothing is sent', async () => {
    const { transfers, fake } = await start({ BANK_9PSB_TRANSFER_CLIENT_SECRET: 'wrong' })
    expect(await transfers.send(transferOrder(), signal)).toMatchObject({
      kind: 'not sent',
      refusal: 'access',
    })
    expect(fake.requests.send).toBe(0)
  })
})

test('a response of another amount proves nothing', async () => {
  const { transfers, fake } = await start()
  fake.faults.add('send', 'other amount')
  expect(await transfers.send(transferOrder(), signal)).toMatchObject({ kind: 'unknown' })
})

test('the operator’s fields are sent, but keep our amount and reference', async () => {
  const fields = { order: { amount: '1' }, transactionType: 'OTHER_BANKS' }
  const { transfers, fake } = await start({ BANK_9PSB_TRANSFER_FIELDS: JSON.stringify(fields) })
  const order = transferOrder()
  await transfers.send(order, signal)
  expect(fake.book.transfers.get(order.reference)).toMatchObject({ amountMinor: 200_045n })
})

/** Starts a bank that issues a token, and responds with this body to anything else. */
async function startWith(
  bodyFor: (reference: string) => object,
  status = 200,
  narration = 'Payout of November',
) {
  const receiver = await startReceiver()
  onTestFinished(() => receiver.close())
  const { transfers } = await start({ BANK_9PSB_TRANSFER_BASE_URL: receiver.url })
  const order = transferOrder({ narration })
  receiver.answer(({ path }) =>
    path.endsWith('/authenticate')
      ? { status: 200, body: JSON.stringify({ accessToken: 'token', expiresIn: '7200' }) }
      : { status, body: JSON.stringify(bodyFor(order.reference)) },
  )
  return { transfers, order }
}

describe('only a clear statement is final', () => {
  test.each<[string, object, string]>([
    ['SUCCESS', { responseCode: '00' }, 'paid'],
    ['SUCCESS', {}, 'paid'],
    ['SUCCESS', { responseCode: '09' }, 'unknown'],
    ['SUCCESS', { responseCode: '96' }, 'unknown'],
    ['SUCCESS', { responseCode: '21', message: 'Transaction reversed' }, 'unknown'],
    ['', { responseCode: '00' }, 'unknown'],
    ['PENDING', { responseCode: '09' }, 'pending'],
    ['FAILED', { responseCode: '57' }, 'failed'],
    ['FAILED', { responseCode: '00' }, 'unknown'],
    ['FAILED', { responseCode: '91' }, 'unknown'],
    ['FAILED', { responseCode: '97' }, 'unknown'],
    ['FAILED', { message: 'An error occurred' }, 'unknown'],
    ['FAILED', { message: 'Duplicate transaction reference' }, 'unknown'],
    ['FAILED', { message: 'Insufficient balance' }, 'failed'],
    ['FAILED', { message: 'The transaction amount supplied is invalid' }, 'failed'],
    ['FAILED', { message: 'Invalid account number supplied' }, 'failed'],
    ['FAILED', { message: 'No response returned' }, 'unknown'],
    ['FAILED', { responseCode: '96', message: 'Transaction reversed' }, 'unknown'],
    ['FAILED', { responseCode: '68', message: 'Insufficient time: no response' }, 'unknown'],
    ['PENDING', { responseCode: '09', message: 'Returned to the queue' }, 'pending'],
  ])('a transfer with status "%s" and %j: %s', async (status, fields, kind) => {
    const { transfers, order } = await startWith((reference) => ({
      status,
      ...fields,
      data: { reference },
    }))
    expect(await transfers.send(order, signal)).toMatchObject({ kind })
  })

  test.each([
    ['21', 'Returned goods'],
    ['', 'Insufficient stock'],
    ['', 'Invalid account number'],
  ])(
    'a failure with the code "%s" and the narration "%s" is unknown',
    async (responseCode, narration) => {
      const [status, message] = ['FAILED', `Failed: ${narration.toUpperCase()}`]
      const { transfers, order } = await startWith(
        (reference) => ({ status, responseCode, message, data: { reference } }),
        200,
        narration,
      )
      expect(await transfers.send(order, signal)).toMatchObject({ kind: 'unknown' })
    },
  )

  test('an approval without our reference is not believed', async () => {
    const { transfers, order } = await startWith(() => ({ status: 'SUCCESS', responseCode: '00' }))
    expect(await transfers.send(order, signal)).toMatchObject({ kind: 'unknown' })
  })

  test.each<[string, object, string]>([
    ['SUCCESS', { status: 'SUCCESS', responseCode: '00' }, 'paid'],
    ['SUCCESS', { status: 'FAILED', responseCode: '57' }, 'failed'],
    ['SUCCESS', { status: 'PENDING', responseCode: '09' }, 'pending'],
    ['SUCCESS', { status: 'FAILED', responseCode: '96' }, 'unknown'],
    [
      'SUCCESS',
      { status: 'FAILED', responseCode: '21', responseMessage: 'Transaction reversed' },
      'returned',
    ],
    [
      'SUCCESS',
      { status: 'FAILED', responseCode: '68', responseMessage: 'Transaction reversed' },
      'unknown',
    ],
    [
      'SUCCESS',
      { status: 'FAILED', responseCode: '21', responseMessage: 'No response returned' },
      'unknown',
    ],
    ['SUCCESS', {}, 'unknown'],
    ['SUCCESS', { reference: '', status: 'FAILED', responseCode: '57' }, 'unknown'],
    ['FAILED', { status: 'FAILED', responseCode: '57' }, 'unknown'],
  ])('a requery with status "%s" of %j: %s', async (status, data, kind) => {
    const { transfers, order } = await startWith((reference) => ({
      status,
      message: 'Done',
      data: { reference, ...data },
    }))
    expect(await transfers.find(order, signal)).toMatchObject({ kind })
  })

  test('the name may be in the data of a response, as another generation of the API has it', async () => {
    const data = { name: 'ADA OBI', number: '0045434120', bank: '000013' }
    const { transfers, order } = await startWith(() => ({ status: 'SUCCESS', data }))
    expect(await transfers.enquireName(order.beneficiary, signal)).toEqual({
      kind: 'found',
      accountName: 'ADA OBI',
      enquiryReference: '',
    })
  })

  test('the balance of another wallet is not the float', async () => {
    const data = { nuban: '1100000000', availableBalance: 100.5 }
    const { transfers } = await startWith(() => ({ status: 'SUCCESS', data }))
    expect(await transfers.readFloat?.(signal)).toMatchObject({ kind: 'unavailable' })
  })
})
