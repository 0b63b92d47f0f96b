import { beforeEach, describe, expect, test } from 'vitest'
import type { SafeHavenFault } from '../../../src/banks/safehaven/fake/safehaven.ts'
import type { TransferConnector, TransferOrder } from '../../../src/banks/transfer.ts'
import { HOUR_MS } from '../../../src/core/durations.ts'
import {
  describeTransfers,
  fakeTransfers,
  transferOrder,
  transfersOf,
} from '../transfer-guarantees.ts'
import { signal, useSafeHaven } from './fixture.ts'

const haven = useSafeHaven()

let bank: typeof haven.fake
beforeEach(async () => {
  bank = await haven.start()
})

const transfers = (environment: NodeJS.ProcessEnv = {}, url = bank.url) =>
  transfersOf(haven.connector(environment, { bank: { ...bank, url } }))
const booked = ({ reference }: TransferOrder) => bank.outgoing.transfers.get(reference)
const fail = (operation: keyof typeof bank.requests, fault: SafeHavenFault) =>
  bank.faults.add(operation, fault)

/** An order after its name enquiry. */
async function enquired(order = transferOrder()): Promise<TransferOrder> {
  const enquiry = await transfers().enquireName(order.beneficiary, signal)
  if (enquiry.kind !== 'found') throw new Error(enquiry.kind)
  return { ...order, enquiryReference: enquiry.enquiryReference }
}

async function start(url = bank.url) {
  const connector = transfers({}, url)
  const find: TransferConnector['find'] = async (order, aborted) =>
    connector.find(await enquired(order), aborted)
  const fake = fakeTransfers(
    bank,
    { enquire: 'enquiry', send: 'transfer', find: 'status', account: 'balance' },
    { 'odd code': 'statusCode 429', denied: 'statusCode 403' },
  )
  return { transfers: { ...connector, find }, fake }
}

describeTransfers(start, start)

describe('settings', () => {
  const without = { BANK_SAFEHAVEN_TRANSFER_ACCOUNT: '', BANK_SAFEHAVEN_TRANSFER_ACCOUNT_ID: '' }

  test('without an account of the operator there are no transfers', () => {
    expect(haven.connector(without).transfers).toBeUndefined()
  })

  test('the account needs its id', () => {
    const { faults } = haven.settings({ ...without, BANK_SAFEHAVEN_TRANSFER_ACCOUNT: '0119536307' })
    expect(faults).toEqual(['BANK_SAFEHAVEN_TRANSFER_ACCOUNT_ID is required'])
  })
})

describe('the name enquiry that each transfer needs', () => {
  test('is made before the transfer if there was none', async () => {
    expect((await transfers().send(transferOrder(), signal)).kind).toBe('paid')
    expect(bank.requests.enquiry).toBe(1)
    const order = await enquired()
    expect((await transfers().send(order, signal)).kind).toBe('paid')
    expect(bank.requests.enquiry).toBe(2)
  })

  test('decides: nothing is sent to an account that is not there, or not known to be', async () => {
    const { beneficiary } = transferOrder()
    const absent = transferOrder({ beneficiary: { ...beneficiary, accountNumber: '0001234567' } })
    const failed = { kind: 'failed', reason: 'beneficiary_rejected' }
    expect(await transfers().send(absent, signal)).toMatchObject(failed)
    fail('enquiry', '500')
    expect((await transfers().send(transferOrder(), signal)).kind).toBe('not sent')
    expect(bank.requests.transfer).toBe(0)
  })

  test('of another account makes the transfer fail', async () => {
    const { enquiryReference } = await enquired()
    const { beneficiary } = transferOrder()
    const other = { ...beneficiary, accountNumber: '0123456780' }
    const order = transferOrder({ beneficiary: other, enquiryReference })
    const failed = { kind: 'failed', reason: 'bank_rejected' }
    expect(await transfers().send(order, signal)).toMatchObject(failed)
  })
})

test('a transfer is not sent without a token', async () => {
  const order = await enquired()
  fail('token', '500')
  expect((await transfers().send(order, signal)).kind).toBe('not sent')
  const denied = transfers({ BANK_SAFEHAVEN_CLIENT_ID: 'another' })
  expect(await denied.send(order, signal)).toMatchObject({ kind: 'not sent', refusal: 'access' })
  expect(bank.requests.transfer).toBe(0)
})

test('a transfer that was refused before the token could not be renewed is unknown', async () => {
  const [first, second] = [await enquired(), await enquired()]
  const connector = transfers()
  await connector.send(first, signal)
  bank.expireTokens()
  fail('token', '500')
  expect((await connector.send(second, signal)).kind).toBe('unknown')
  expect(bank.requests.transfer).toBe(2)
})

test.each([
  ['statusCode 400', 'failed'],
  ['statusCode 402', 'unknown'],
  ['statusCode 409', 'unknown'],
] as const)('a refusal with %s and no cause that is known is %s', async (fault, kind) => {
  const order = await enquired()
  fail('transfer', fault)
  expect((await transfers().send(order, signal)).kind).toBe(kind)
})

test.each(['other amount', 'other account'] as const)(
  'a response about %s is unknown, and so is its state',
  async (fault) => {
    const order = await enquired()
    fail('transfer', fault)
    expect((await transfers().send(order, signal)).kind).toBe('unknown')
    fail('status', fault)
    expect((await transfers().find(order, signal)).kind).toBe('unknown')
    expect((await transfers().find(order, signal)).kind).toBe('paid')
  },
)

test.each([
  ['97', 'unknown'],
  ['00', 'unknown'],
  ['94', 'unknown'],
  ['51', 'insufficient_float'],
  ['07', 'beneficiary_rejected'],
  ['06', 'bank_rejected'],
  ['', 'bank_rejected'],
])('a failure with the code "%s" of the switch is read as %s', async (code, expected) => {
  const order = await enquired()
  await transfers().send(order, signal)
  bank.outgoing.finish(order.reference, 'failed')
  fail('status', `code ${code}`)
  const result = await transfers().find(order, signal)
  expect(result.kind === 'failed' ? result.reason : result.kind).toBe(expected)
})

test.each([
  ['paid', 'returned'],
  ['failed', 'failed'],
] as const)('a transfer that was %s and reversed is %s', async (state, kind) => {
  const order = await enquired()
  await transfers().send(order, signal)
  bank.outgoing.finish(order.reference, state)
  fail('status', 'reversed')
  expect((await transfers().find(order, signal)).kind).toBe(kind)
})

describe('asking for a transfer', () => {
  test('finds it in the list if the bank does not know the reference', async () => {
    const order = await enquired()
    await transfers().send(order, signal)
    fail('status', 'statusCode 400')
    expect((await transfers().find(order, signal)).kind).toBe('paid')
    expect(bank.requests.transfers).toBe(1)
  })

  test('finds it on a later page', async () => {
    const order = await enquired()
    await transfers().send(order, signal)
    book(120)
    fail('status', 'statusCode 400')
    expect((await transfers().find(order, signal)).kind).toBe('paid')
    expect(bank.requests.transfers).toBe(2)
  })

  test('is unknown if the list is too long to search', async () => {
    const order = await enquired()
    book(2_001)
    expect((await transfers().find(order, signal)).kind).toBe('unknown')
    expect(bank.requests.transfers).toBe(20)
  })

  test('is unknown if the list has a transfer without a reference', async () => {
    const order = await enquired()
    bank.outgoing.send({ ...bookable(), reference: '' }, undefined)
    expect((await transfers().find(order, signal)).kind).toBe('unknown')
  })

  test('is unknown if the list cannot be read', async () => {
    const order = await enquired()
    for (const fault of ['500', 'page', 'cut', 'statusCode 400', 'statusCode 403'] as const) {
      fail('transfers', fault)
      if (fault === 'statusCode 403') fail('transfers', fault)
      expect((await transfers().find(order, signal)).kind).toBe('unknown')
    }
  })

  test.each(['', 'not-a-session', '000016991301000000000000000001'])(
    'is unknown without the time of its enquiry ("%s"), which bounds the list',
    async (enquiryReference) => {
      const result = await transfers().find(transferOrder({ enquiryReference }), signal)
      expect(result.kind).toBe('unknown')
      expect(bank.requests.transfers).toBe(0)
    },
  )
})

/** What `outgoing.send` takes, without a reference. */
function bookable() {
  const { amountMinor, narration, beneficiary } = transferOrder()
  return { amountMinor, narration, ...beneficiary }
}

/** Books transfers without calls. */
function book(count: number): void {
  bank.outgoing.floatMinor = 10n ** 15n
  for (let i = 0; i < count; i++) {
    bank.outgoing.send({ ...bookable(), reference: `BOOKED${i}` }, undefined)
  }
}

test('lists the transfers of a period once, page by page', async () => {
  book(120)
  fail('transfer', 'fails later')
  const failing = await enquired()
  await transfers().send(failing, signal)
  const [fromMs, toMs] = [Date.now() - HOUR_MS, Date.now() + HOUR_MS]
  const list = (page: string | undefined) =>
    transfers().listTransfers!({ fromMs, toMs, page }, signal)
  const first = await list(undefined)
  const second = await list(first.next)
  expect([first.lines.length, first.next]).toEqual([100, '1'])
  expect([second.lines.length, second.next]).toEqual([21, undefined])
  expect(first.lines[0]).toEqual({
    reference: failing.reference,
    sessionId: booked(failing)?.sessionId,
    amountMinor: failing.amountMinor,
    accountNumber: failing.beneficiary.accountNumber,
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

test('the float is read of our account only, and of the field in the settings', async () => {
  const other = transfers({ BANK_SAFEHAVEN_TRANSFER_ACCOUNT: '0119536306' })
  expect((await other.readFloat!(signal)).kind).toBe('unavailable')
  const renamed = transfers({ BANK_SAFEHAVEN_TRANSFER_BALANCE_FIELD: 'balance' })
  expect((await renamed.readFloat!(signal)).kind).toBe('unavailable')
})
