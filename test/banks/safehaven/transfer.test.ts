import { beforeEach, describe, expect, test } from 'vitest'
import type { SafeHavenFault } from '../../../src/banks/safehaven/fake/safehaven.ts'
import type { TransferConnector, TransferOrder } from '../../../src/banks/transfer.ts'
import { systemClock } from '../../../src/core/clock.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../../src/core/durations.ts'
import { abortedOnce } from '../fixture.ts'
import { transferOrder } from '../transfer-fixture.ts'
import { signal, useSafeHaven } from './fixture.ts'

const haven = useSafeHaven()
const { start, settings } = haven

type Bank = typeof haven.fake

let bank: Bank
beforeEach(async () => {
  bank = await start()
})

/** Transfers at the bank of this test. */
function transfers(environment: NodeJS.ProcessEnv = {}, clock = systemClock): TransferConnector {
  const connector = haven.connector(environment, { bank, clock })
  if (!connector.transfers) throw new Error('no transfers')
  return connector.transfers
}

/** An order after its name enquiry. */
async function enquired(overrides: Partial<TransferOrder> = {}): Promise<TransferOrder> {
  const order = transferOrder(overrides)
  const enquiry = await transfers().enquireName(order.beneficiary, signal)
  if (enquiry.kind !== 'found') throw new Error(enquiry.kind)
  return { ...order, enquiryReference: enquiry.enquiryReference }
}

const booked = ({ reference }: TransferOrder) => bank.outgoing.transfers.get(reference)
const fail = (operation: Parameters<Bank['faults']['add']>[0], fault: SafeHavenFault, times = 1) =>
  bank.faults.add(operation, fault, times)

describe('settings', () => {
  const without = { BANK_SAFEHAVEN_TRANSFER_ACCOUNT: '', BANK_SAFEHAVEN_TRANSFER_ACCOUNT_ID: '' }

  test('without an account of the operator there are no transfers', () => {
    expect(haven.connector(without).transfers).toBeUndefined()
  })

  test('the account needs its id', () => {
    const { faults } = settings({ ...without, BANK_SAFEHAVEN_TRANSFER_ACCOUNT: '0119536307' })
    expect(faults).toEqual(['BANK_SAFEHAVEN_TRANSFER_ACCOUNT_ID is required'])
  })
})

describe('a name enquiry', () => {
  const account = { bankCode: '000013', accountNumber: '0123456789' }

  test('returns the name and what the transfer needs', async () => {
    expect(await transfers().enquireName(account, signal)).toEqual({
      kind: 'found',
      accountName: bank.outgoing.nameOf(account.accountNumber),
      enquiryReference: expect.stringMatching(/^\d{30}$/),
    })
  })

  test('returns the name that the bank states, whatever was expected', async () => {
    fail('enquiry', 'wrong name')
    const result = await transfers().enquireName(account, signal)
    expect(result).toMatchObject({ kind: 'found', accountName: 'ANOTHER HOLDER' })
  })

  test('says that there is no such account', async () => {
    const unknown = { ...account, accountNumber: '0001234567' }
    expect(await transfers().enquireName(unknown, signal)).toEqual({
      kind: 'not found',
      cause: '400 Account not found.',
    })
  })

  test.each(['cut', '500', 'page', 'statusCode 400', 'statusCode 429'] as const)(
    'is unavailable after %s',
    async (fault) => {
      fail('enquiry', fault)
      expect((await transfers().enquireName(account, signal)).kind).toBe('unavailable')
    },
  )

  test('says that the bank denies access', async () => {
    const denied = transfers({ BANK_SAFEHAVEN_CLIENT_ID: 'another' })
    const result = await denied.enquireName(account, signal)
    expect(result).toMatchObject({ kind: 'unavailable', refusal: 'access' })
  })
})

describe('a transfer', () => {
  test('is paid once, from the float', async () => {
    const order = await enquired()
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

  test('without an enquiry makes one first', async () => {
    const order = transferOrder()
    expect((await transfers().send(order, signal)).kind).toBe('paid')
    const absent = { ...order.beneficiary, accountNumber: '0001234567' }
    const unknown = transferOrder({ beneficiary: absent })
    expect(await transfers().send(unknown, signal)).toMatchObject({
      kind: 'failed',
      reason: 'beneficiary_rejected',
    })
    fail('enquiry', '500')
    expect((await transfers().send(transferOrder(), signal)).kind).toBe('not sent')
    expect(bank.requests.transfer).toBe(1)
  })

  test.each(['cut', '500', 'page'] as const)(
    'without a usable response (%s) is unknown, and was not made',
    async (fault) => {
      const order = await enquired()
      fail('transfer', fault)
      expect((await transfers().send(order, signal)).kind).toBe('unknown')
      expect(await transfers().find(order, signal)).toEqual({
        kind: 'not found',
        cause: 'not in the list of transfers of Safe Haven',
      })
    },
  )

  test.each(['cut after', '500 after', 'page after', 'other reference', 'other amount'] as const)(
    'that was debited before %s is unknown, and found paid',
    async (fault) => {
      const order = await enquired()
      fail('transfer', fault)
      expect((await transfers().send(order, signal)).kind).toBe('unknown')
      const { sessionId } = booked(order)!
      expect(await transfers().find(order, signal)).toEqual({ kind: 'paid', sessionId })
    },
  )

  test('that was debited before it timed out is unknown, and found paid', async () => {
    const order = await enquired()
    fail('transfer', 'hang after')
    const result = await abortedOnce(
      () => booked(order) !== undefined,
      (aborted) => transfers().send(order, aborted),
    )
    expect(result.kind).toBe('unknown')
    expect((await transfers().find(order, signal)).kind).toBe('paid')
  })

  test('is not sent without a token, or without a connection', async () => {
    const order = await enquired()
    fail('token', '500')
    expect((await transfers().send(order, signal)).kind).toBe('not sent')
    const denied = transfers({ BANK_SAFEHAVEN_CLIENT_ID: 'another' })
    expect(await denied.send(order, signal)).toMatchObject({ kind: 'not sent', refusal: 'access' })
    await bank.close()
    expect((await transfers().send(order, signal)).kind).toBe('not sent')
    expect(bank.requests.transfer).toBe(0)
  })

  test('that the bank itself denies access to is unknown', async () => {
    const order = await enquired()
    fail('transfer', 'statusCode 403', 2)
    expect(await transfers().send(order, signal)).toMatchObject({
      kind: 'unknown',
      refusal: 'access',
    })
  })

  test('beyond the float fails', async () => {
    const order = await enquired({ amountMinor: bank.outgoing.floatMinor + 1n })
    expect(await transfers().send(order, signal)).toEqual({
      kind: 'failed',
      cause: '402 Insufficient balance.',
      reason: 'insufficient_float',
    })
  })

  test('with the enquiry of another account fails', async () => {
    const { enquiryReference } = await enquired()
    const { beneficiary } = transferOrder()
    const other = { ...beneficiary, accountNumber: '0123456780' }
    const order = transferOrder({ beneficiary: other, enquiryReference })
    expect(await transfers().send(order, signal)).toMatchObject({
      kind: 'failed',
      reason: 'beneficiary_rejected',
    })
  })

  test.each(['statusCode 400', 'statusCode 402', 'statusCode 409', 'statusCode 429'] as const)(
    'with a refusal that states no more than %s is failed only if the request was not acceptable',
    async (fault) => {
      const order = await enquired()
      fail('transfer', fault)
      const { kind } = await transfers().send(order, signal)
      expect(kind).toBe(fault === 'statusCode 400' ? 'failed' : 'unknown')
    },
  )

  test('that is sent twice is unknown: the reference is a duplicate', async () => {
    const order = await enquired()
    await transfers().send(order, signal)
    expect((await transfers().send(order, signal)).kind).toBe('unknown')
    expect(booked(order)?.debits).toBe(1)
    bank.outgoing.paysTwice = true
    await transfers().send(order, signal)
    expect(booked(order)?.debits).toBe(2)
  })

  test('is pending until it is paid, fails or comes back', async () => {
    const [late, failing, returned] = [await enquired(), await enquired(), await enquired()]
    for (const fault of ['pays later', 'fails later', 'returns later'] as const) {
      fail('transfer', fault)
    }
    const kindOf = async (order: TransferOrder) => (await transfers().find(order, signal)).kind
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
  test('finds it in the list if the bank does not know the reference', async () => {
    const order = await enquired()
    await transfers().send(order, signal)
    fail('status', 'statusCode 400')
    expect((await transfers().find(order, signal)).kind).toBe('paid')
  })

  test('does not find what the bank hides for a minute', async () => {
    const order = await enquired()
    fail('transfer', 'hides')
    await transfers().send(order, signal)
    expect((await transfers().find(order, signal)).kind).toBe('not found')
    expect(transfers().consistencyMs).toBeGreaterThan(MINUTE_MS)
    bank.outgoing.elapse(MINUTE_MS)
    expect((await transfers().find(order, signal)).kind).toBe('paid')
  })

  test.each(['cut', '500', 'page', 'other reference', 'other amount', 'statusCode 429'] as const)(
    'is unknown after %s',
    async (fault) => {
      const order = await enquired()
      await transfers().send(order, signal)
      fail('status', fault)
      expect((await transfers().find(order, signal)).kind).toBe('unknown')
    },
  )

  test('is unknown if the list cannot be read', async () => {
    const order = await enquired()
    for (const fault of ['500', 'page', 'statusCode 400'] as const) {
      fail('transfers', fault)
      expect((await transfers().find(order, signal)).kind).toBe('unknown')
    }
  })

  test('is unknown without an enquiry, whose time bounds the list', async () => {
    expect((await transfers().find(transferOrder(), signal)).kind).toBe('unknown')
  })

  test('says that the bank denies access', async () => {
    const denied = transfers({ BANK_SAFEHAVEN_CLIENT_ID: 'another' })
    const result = await denied.find(transferOrder(), signal)
    expect(result).toMatchObject({ kind: 'unknown', refusal: 'access' })
  })
})

test('lists the transfers of a period once, page by page', async () => {
  const { reference, beneficiary, ...order } = transferOrder()
  for (let i = 0; i < 120; i++) {
    bank.outgoing.send({ ...order, ...beneficiary, reference: `${reference}${i}` }, undefined)
  }
  fail('transfer', 'fails later')
  const failing = await enquired()
  await transfers().send(failing, signal)
  const [fromMs, toMs] = [Date.now() - HOUR_MS, Date.now() + HOUR_MS]
  const list = (page: string | undefined) =>
    transfers().listTransfers!({ fromMs, toMs, page }, signal)
  const first = await list(undefined)
  const second = await list(first.next)
  expect([first.lines.length, first.next, second.lines.length, second.next]).toEqual([
    100,
    '1',
    21,
    undefined,
  ])
  expect(first.lines[0]).toEqual({
    reference: failing.reference,
    sessionId: booked(failing)?.sessionId,
    amountMinor: 150_050n,
    accountNumber: '0123456789',
    atMs: booked(failing)?.atMs,
    state: 'pending',
  })
  const references = [...first.lines, ...second.lines].map(({ reference }) => reference)
  expect(new Set(references).size).toBe(121)
  const none = await transfers().listTransfers!({ fromMs: 0, toMs: 1, page: undefined }, signal)
  expect(none).toEqual({ lines: [], next: undefined })
  fail('transfers', '500')
  await expect(list(undefined)).rejects.toThrow('did not list transfers')
})

test('reads the float, of our account only', async () => {
  bank.outgoing.floatMinor = 123_456_789n
  expect(await transfers().readFloat!(signal)).toEqual({
    kind: 'read',
    availableMinor: 123_456_789n,
  })
  const other = transfers({ BANK_SAFEHAVEN_TRANSFER_ACCOUNT: '0119536306' })
  expect((await other.readFloat!(signal)).kind).toBe('unavailable')
  const renamed = transfers({ BANK_SAFEHAVEN_TRANSFER_BALANCE_FIELD: 'balance' })
  expect((await renamed.readFloat!(signal)).kind).toBe('unavailable')
  fail('balance', 'cut')
  expect((await transfers().readFloat!(signal)).kind).toBe('unavailable')
})
