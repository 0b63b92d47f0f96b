import { describe, expect, onTestFinished, test } from 'vitest'
import { startReceiver } from '../support/receiver.ts'
import { signal } from './fixture.ts'
import { providusFixture, TRANSFERS } from './providus-fixture.ts'
import { describeTransfers, transferOrder, transfersOf } from './transfer-guarantees.ts'

async function start(env: Readonly<Record<string, string>> = {}) {
  const { bank, connector } = await providusFixture({}, { ...TRANSFERS, ...env })
  return { transfers: transfersOf(connector), fake: bank.transfers }
}

describeTransfers(start, (baseUrl) => start({ BANK_PROVIDUS_TRANSFER_BASE_URL: baseUrl }), [
  'other amount',
  'other account',
])

test('no money goes out without the settings of transfers', async () => {
  const { connector } = await providusFixture()
  expect(connector.transfers).toBeUndefined()
})

describe('an account at Providus itself', () => {
  const own = transferOrder({
    beneficiary: { bankCode: '000023', accountNumber: '5900174721', accountName: 'ADA OBI' },
  })

  test('is enquired, paid and asked about by the calls for own accounts', async () => {
    const { transfers, fake } = await start()
    const { accountNumber } = own.beneficiary
    const accountName = fake.book.nameOf(accountNumber)
    const enquiry = await transfers.enquireName(own.beneficiary, signal)
    expect(enquiry).toMatchObject({ kind: 'found', accountName })
    // These calls return no session id.
    expect(await transfers.send(own, signal)).toEqual({ kind: 'paid', sessionId: '' })
    expect(await transfers.find(own, signal)).toEqual({ kind: 'paid', sessionId: '' })
    expect(fake.book.transfers.get(own.reference)).toMatchObject({ accountNumber, debits: 1 })
    expect(fake.requests.enquire).toBe(0)
  })

  test('that does not exist is not found', async () => {
    const { transfers } = await start()
    const missing = { bankCode: '000023', accountNumber: '0000170000' }
    expect(await transfers.enquireName(missing, signal)).toMatchObject({ kind: 'not found' })
  })

  test('is not paid if the bank describes another amount', async () => {
    const { transfers, fake } = await start()
    fake.faults.add('send', 'other amount')
    expect(await transfers.send(own, signal)).toMatchObject({ kind: 'unknown' })
  })
})

/** What the connector makes of a response that the bank could send. */
async function whenAnswered(status: number, body: object, narration = '') {
  const receiver = await startReceiver()
  onTestFinished(() => receiver.close())
  receiver.answer({ status, body: JSON.stringify(body) })
  const { transfers } = await start({ BANK_PROVIDUS_TRANSFER_BASE_URL: receiver.url })
  const order = transferOrder({ narration })
  const own = { transactionReference: order.reference, ...body }
  receiver.answer({ status, body: JSON.stringify(own) })
  return {
    sent: (await transfers.send(order, signal)).kind,
    found: (await transfers.find(order, signal)).kind,
  }
}

test('the name is the one that the bank returns, also another one', async () => {
  const { transfers, fake } = await start()
  fake.faults.add('enquire', 'wrong name')
  expect(await transfers.enquireName(transferOrder().beneficiary, signal)).toMatchObject({
    kind: 'found',
    accountName: 'ANOTHER HOLDER',
  })
})

describe('only a clear statement is final', () => {
  test.each([
    [200, '05', 'Do not honor', 'failed'],
    [400, '57', 'Transaction not permitted to sender', 'failed'],
    [200, '91', 'Beneficiary bank not available', 'unknown'],
    [200, '97', 'Timeout waiting for response from destination', 'unknown'],
    [200, '03', 'Exception; Failed', 'unknown'],
    [500, '57', 'Transaction not permitted to sender', 'unknown'],
    [200, '09', 'Request processing in progress', 'pending'],
    [502, '00', 'Approved or completed successfully', 'unknown'],
    [400, '00', 'Approved or completed successfully', 'unknown'],
    [200, '', '', 'unknown'],
    [200, '05', 'Invalid username or password', 'unknown'],
    [200, '01', 'Status unknown, please wait for settlement report', 'pending'],
    [200, '25', 'Transaction not found', 'unknown'],
    [200, '21', 'Transaction reversed', 'returned'],
    [200, '96', 'Reversal in progress', 'unknown'],
    [200, '96', 'Transaction could not be reversed', 'unknown'],
    [200, '96', 'Transaction reversed', 'unknown'],
    [200, '68', 'No response returned', 'unknown'],
    [200, '21', 'The destination returned an error', 'unknown'],
    [200, '99', 'No response returned', 'unknown'],
    [200, '09', 'Payment for insufficient stock is in progress', 'pending'],
    [200, '94', 'Duplicate transfer: account 0123456785 does not exist twice', 'unknown'],
    [200, '51', 'Insufficient funds', 'failed'],
    [200, '32', 'Insufficient funds', 'failed'],
  ])('HTTP %i with code "%s" (%s): %s', async (status, responseCode, responseMessage, kind) => {
    const result = await whenAnswered(status, { responseCode, responseMessage })
    expect(result).toEqual({ sent: kind, found: kind })
  })

  test.each(['Returned goods', 'Insufficient stock', 'My account does not exist'])(
    'the narration "%s" in a text says nothing of the transfer',
    async (narration) => {
      const responseMessage = `Failed: ${narration}`
      const result = await whenAnswered(200, { responseCode: '99', responseMessage }, narration)
      expect(result).toEqual({ sent: 'unknown', found: 'unknown' })
    },
  )

  test('a code about the query itself says nothing of the transfer', async () => {
    const refusal = { responseCode: '57', responseMessage: 'No', transactionReference: '' }
    expect(await whenAnswered(200, refusal)).toEqual({ sent: 'failed', found: 'unknown' })
  })

  test('“does not exist” on a server error does not prove that there is no transfer', async () => {
    const missing = { responseCode: '01', responseMessage: 'Transaction does not exist.' }
    expect((await whenAnswered(500, missing)).found).toBe('unknown')
    expect((await whenAnswered(401, missing)).found).toBe('not found')
  })
})
