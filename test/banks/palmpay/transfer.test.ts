import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import {
  type FakePalmPay,
  type PalmPayFault,
  type PalmPayOperation,
  startFakePalmPay,
} from '../../../src/banks/palmpay/fake.ts'
import type { TransferConnector, TransferOrder } from '../../../src/banks/transfer.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../../src/core/durations.ts'
import { abortedOnce } from '../fixture.ts'
import { transferOrder } from '../transfer-fixture.ts'
import { notificationOf, signal, usePalmPay } from './fixture.ts'

const palm = usePalmPay()

let bank: FakePalmPay
beforeEach(async () => {
  bank = await startFakePalmPay({ port: 0, credentials: palm.credentials })
  onTestFinished(() => bank.close())
})

/** Transfers at the bank of this test. */
function transfers(environment: NodeJS.ProcessEnv = {}): TransferConnector {
  const connector = palm.connector(environment, bank.url)
  if (!connector.transfers) throw new Error('no transfers')
  return connector.transfers
}

const booked = ({ reference }: TransferOrder) => bank.outgoing.transfers.get(reference)
const fail = (operation: PalmPayOperation, fault: PalmPayFault, times = 1) =>
  bank.faults.add(operation, fault, times)
const kindOf = async (order: TransferOrder) => (await transfers().find(order, signal)).kind

describe('settings', () => {
  const without = { BANK_PALMPAY_TRANSFER_MERCHANT_ID: '', BANK_PALMPAY_TRANSFER_NOTIFY_URL: '' }

  test('without a merchant id there are no transfers', () => {
    expect(palm.connector(without).transfers).toBeUndefined()
  })

  test('the merchant id needs a URL for notifications', () => {
    const { faults } = palm.settings({ ...without, BANK_PALMPAY_TRANSFER_MERCHANT_ID: '1' })
    expect(faults).toEqual([
      'BANK_PALMPAY_TRANSFER_NOTIFY_URL is required: a URL such as https://bank.example',
    ])
  })
})

describe('a name enquiry', () => {
  const account = { bankCode: '000013', accountNumber: '0123456789' }
  const own = { ...account, bankCode: '100033' }

  test.each([
    [account, 'queryBankAccount'],
    [own, 'queryAccount'],
  ] as const)('of %o asks %s', async (asked, operation) => {
    expect(await transfers().enquireName(asked, signal)).toEqual({
      kind: 'found',
      accountName: bank.outgoing.nameOf(asked.accountNumber),
      enquiryReference: '',
    })
    expect(bank.requests[operation]).toBe(1)
    const unknown = { ...asked, accountNumber: '0001234567' }
    expect((await transfers().enquireName(unknown, signal)).kind).toBe('not found')
  })

  test('returns the name that the bank states, whatever was expected', async () => {
    fail('queryBankAccount', 'wrong name')
    const result = await transfers().enquireName(account, signal)
    expect(result).toMatchObject({ kind: 'found', accountName: 'ANOTHER HOLDER' })
  })

  test.each(['cut', '500', 'page', 'code AC100003'] as const)(
    'is unavailable after %s',
    async (fault) => {
      fail('queryBankAccount', fault)
      fail('queryAccount', fault)
      expect((await transfers().enquireName(account, signal)).kind).toBe('unavailable')
      expect((await transfers().enquireName(own, signal)).kind).toBe('unavailable')
    },
  )

  test('says that the bank denies access', async () => {
    const denied = transfers({ BANK_PALMPAY_APP_ID: 'another' })
    const result = await denied.enquireName(account, signal)
    expect(result).toMatchObject({ kind: 'unavailable', refusal: 'access' })
  })
})

describe('a transfer', () => {
  test('is paid once, from the float', async () => {
    const order = transferOrder()
    const before = bank.outgoing.floatMinor
    const result = await transfers().send(order, signal)
    expect(result).toEqual({ kind: 'paid', sessionId: booked(order)?.sessionId })
    expect(booked(order)).toMatchObject({
      debits: 1,
      amountMinor: order.amountMinor,
      narration: order.narration,
      ...{ bankCode: '000013', accountNumber: '0123456789' },
    })
    expect(bank.outgoing.floatMinor).toBe(before - order.amountMinor)
    expect(await transfers().find(order, signal)).toEqual(result)
  })

  test('without a narration has its reference for a remark', async () => {
    const order = transferOrder({ narration: '' })
    await transfers().send(order, signal)
    expect(booked(order)?.narration).toBe(order.reference)
  })

  test.each(['cut', '500', 'page', 'code AC100003', 'code AC999999'] as const)(
    'without a clear response (%s) is unknown, and was not made',
    async (fault) => {
      const order = transferOrder()
      fail('payout', fault)
      expect((await transfers().send(order, signal)).kind).toBe('unknown')
      expect(await transfers().find(order, signal)).toEqual({
        kind: 'not found',
        cause: 'PalmPay returned no payout',
      })
    },
  )

  test.each([
    'cut after',
    '500 after',
    'page after',
    'done, code AC100003',
    'other reference',
    'other amount',
  ] as const)('that was debited before %s is unknown, and found paid', async (fault) => {
    const order = transferOrder()
    fail('payout', fault)
    expect((await transfers().send(order, signal)).kind).toBe('unknown')
    const { sessionId } = booked(order)!
    expect(await transfers().find(order, signal)).toEqual({ kind: 'paid', sessionId })
  })

  test('that was debited before it timed out is unknown, and found paid', async () => {
    const order = transferOrder()
    fail('payout', 'hang after')
    const result = await abortedOnce(
      () => booked(order) !== undefined,
      (aborted) => transfers().send(order, aborted),
    )
    expect(result.kind).toBe('unknown')
    expect(await kindOf(order)).toBe('paid')
  })

  test('is not sent without a connection', async () => {
    await bank.close()
    expect((await transfers().send(transferOrder(), signal)).kind).toBe('not sent')
  })

  test('that the bank denies access to is unknown', async () => {
    const denied = transfers({ BANK_PALMPAY_APP_ID: 'another' })
    const refused = { kind: 'unknown', refusal: 'access' }
    expect(await denied.send(transferOrder(), signal)).toMatchObject(refused)
    expect(await denied.find(transferOrder(), signal)).toMatchObject(refused)
  })

  test('fails if the float, the account or the request is refused', async () => {
    const large = transferOrder({ amountMinor: bank.outgoing.floatMinor + 1n })
    const reasonOf = async (order: TransferOrder) => {
      const result = await transfers().send(order, signal)
      return result.kind === 'failed' ? result.reason : result.kind
    }
    expect(await reasonOf(large)).toBe('insufficient_float')
    const { beneficiary } = transferOrder()
    const absent = { ...beneficiary, accountNumber: '0001234567' }
    expect(await reasonOf(transferOrder({ beneficiary: absent }))).toBe('beneficiary_rejected')
    fail('payout', 'code OPEN_GW_000020')
    expect(await reasonOf(transferOrder())).toBe('bank_rejected')
    expect(bank.outgoing.transfers.size).toBe(0)
  })

  test('that is sent twice is unknown: the reference is a duplicate', async () => {
    const order = transferOrder()
    await transfers().send(order, signal)
    expect((await transfers().send(order, signal)).kind).toBe('unknown')
    expect(booked(order)?.debits).toBe(1)
    bank.outgoing.paysTwice = true
    await transfers().send(order, signal)
    expect(booked(order)?.debits).toBe(2)
  })

  test('is pending until it is paid, fails or comes back', async () => {
    const [late, failing, returned] = [transferOrder(), transferOrder(), transferOrder()]
    for (const fault of ['pays later', 'fails later', 'returns later'] as const) {
      fail('payout', fault)
    }
    expect((await transfers().send(late, signal)).kind).toBe('pending')
    expect((await transfers().send(failing, signal)).kind).toBe('pending')
    expect((await transfers().send(returned, signal)).kind).toBe('paid')
    bank.outgoing.elapse(MINUTE_MS)
    expect([await kindOf(late), await kindOf(failing)]).toEqual(['paid', 'pending'])
    bank.outgoing.elapse(HOUR_MS)
    expect(await transfers().find(failing, signal)).toMatchObject({
      kind: 'failed',
      reason: 'beneficiary_rejected',
    })
    expect(await kindOf(returned)).toBe('paid')
    bank.outgoing.elapse(3 * DAY_MS)
    expect(await kindOf(returned)).toBe('returned')
  })
})

describe('asking for a transfer', () => {
  test('does not find what the bank hides for a minute', async () => {
    const order = transferOrder()
    fail('payout', 'hides')
    await transfers().send(order, signal)
    expect(await kindOf(order)).toBe('not found')
    expect(transfers().consistencyMs).toBeGreaterThan(MINUTE_MS)
    bank.outgoing.elapse(MINUTE_MS)
    expect(await kindOf(order)).toBe('paid')
  })

  test('takes a code for an unknown record as not found', async () => {
    fail('queryPayStatus', 'code AC100001')
    expect(await kindOf(transferOrder())).toBe('not found')
  })

  test.each(['cut', '500', 'page', 'code AC100003', 'other reference', 'other amount'] as const)(
    'is unknown after %s',
    async (fault) => {
      const order = transferOrder()
      await transfers().send(order, signal)
      fail('queryPayStatus', fault)
      expect(await kindOf(order)).toBe('unknown')
    },
  )
})

test('reads the float in kobo', async () => {
  bank.outgoing.floatMinor = 123_456_789n
  expect(await transfers().readFloat!(signal)).toEqual({
    kind: 'read',
    availableMinor: 123_456_789n,
  })
  const other = transfers({ BANK_PALMPAY_TRANSFER_MERCHANT_ID: '1' })
  expect((await other.readFloat!(signal)).kind).toBe('unavailable')
  fail('queryBalance', 'cut')
  expect((await transfers().readFloat!(signal)).kind).toBe('unavailable')
})

test('the notification of a payout is acknowledged and changes nothing', () => {
  const reading = palm.connector().read(notificationOf(palm.fake.payout(150_050n)))
  expect(reading.kind).toBe('ignored')
})
