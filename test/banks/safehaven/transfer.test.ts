import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import type { BookedTransfer } from '../../../src/banks/fake/transfer-book.ts'
import type { SafeHavenFault } from '../../../src/banks/safehaven/fake/safehaven.ts'
import type { OutgoingLine, TransferConnector, TransferOrder } from '../../../src/banks/transfer.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../../src/core/durations.ts'
import { startReceiver } from '../../support/receiver.ts'
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
type BookedState = OutgoingLine['state']
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
  const send: TransferConnector['send'] = async (order, aborted) =>
    connector.send(await enquired(order), aborted)
  const fake = fakeTransfers(
    bank,
    { enquire: 'enquiry', send: 'transfer', find: 'status', account: 'balance' },
    { 'odd code': 'statusCode 429', denied: 'statusCode 403' },
  )
  return { transfers: { ...connector, find, send }, fake }
}

describeTransfers(start, start)

/** A token as the bank issues it. */
const ISSUED = { access_token: 'token', ibs_client_id: 'client', expires_in: 3600 }

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
  test('is missing: nothing is sent', async () => {
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

test('a transfer that was refused before the token was renewed too late to send it again is unknown', async () => {
  const receiver = await startReceiver()
  onTestFinished(() => receiver.close())
  const late = new AbortController()
  let tokens = 0
  receiver.answer(({ path }) => {
    if (!path.endsWith('/token')) return { status: 401, body: '{}' }
    tokens += 1
    if (tokens === 2) late.abort()
    return { status: 200, body: JSON.stringify(ISSUED) }
  })
  const order = transferOrder({ enquiryReference: 'enquiry' })
  const result = await transfers({}, receiver.url).send(order, late.signal)
  expect(result).toMatchObject({ kind: 'unknown', refusal: 'access' })
  expect([tokens, receiver.requests.length]).toEqual([2, 3])
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

  test.each([
    ['paid', 'failed', 'paid'],
    ['failed', 'paid', 'paid'],
    ['paid', 'returned', 'paid'],
    ['failed', 'failed', 'failed'],
    ['failed', 'pending', 'unknown'],
    ['pending', 'failed', 'unknown'],
    ['failed', 'returned', 'unknown'],
  ] as const)(
    'which was sent twice, and listed as %s and as %s, finds it %s',
    async (older, newer, kind) => {
      const order = await enquired()
      await transfers().send(order, signal)
      sendAgain(order, older, newer)
      fail('status', 'statusCode 400')
      expect((await transfers().find(order, signal)).kind).toBe(kind)
    },
  )

  test('which was sent twice reads all pages before it fails', async () => {
    const order = await enquired()
    await transfers().send(order, signal)
    book(120)
    sendAgain(order, 'paid', 'failed')
    fail('status', 'statusCode 400')
    expect((await transfers().find(order, signal)).kind).toBe('paid')
    fail('status', 'statusCode 400')
    fail('transfers', '500')
    expect((await transfers().find(order, signal)).kind).toBe('unknown')
  })

  test('of which the list is too long to search finds what came back, and no failure', async () => {
    const [failed, returned, missing] = [await enquired(), await enquired(), await enquired()]
    let nowMs = Date.now()
    const connector = transfersOf(haven.connector({}, { bank, clock: { now: () => nowMs } }))
    for (const order of [failed, returned]) await connector.send(order, signal)
    overfill()
    sendAgain(failed, 'failed', 'failed')
    bank.outgoing.transfers.get(returned.reference)!.state = 'returned'
    for (let i = 0; i < 3; i++) fail('status', 'statusCode 400')
    const found = await Promise.all(
      [failed, returned, missing].map((order) => connector.find(order, signal)),
    )
    expect(found.map(({ kind }) => kind)).toEqual(['unknown', 'returned', 'unknown'])
    // A look-up soon after does not read it all again.
    for (const [order, state] of [
      [returned, { kind: 'returned' }],
      [missing, { kind: 'unknown', cause: 'Safe Haven lists too many transfers to search' }],
    ] as const) {
      fail('status', 'statusCode 400')
      const again = await connector.find({ ...order, listAgeMsMax: HOUR_MS }, signal)
      expect(again).toMatchObject(state)
      expect(again).not.toHaveProperty('isReading')
    }
    expect(bank.requests.transfers).toBe(300)
    // However old a list may be, one that is not complete is read again.
    nowMs += HOUR_MS / 2
    fail('status', 'statusCode 400')
    await connector.find({ ...missing, listAgeMsMax: HOUR_MS }, signal)
    expect(bank.requests.transfers).toBe(600)
  })

  test.each([
    ['paid', 'finds it on a later page', (reference: string) => reference],
    ['unknown', 'does not miss it in lower case', (reference: string) => reference.toLowerCase()],
    ['not found', 'does not find what is not there', () => ''],
  ] as const)(
    'in a list of short pages without their number: %s, as it %s',
    async (kind, _, listedAs) => {
      const receiver = await startReceiver()
      onTestFinished(() => receiver.close())
      const order = transferOrder({ enquiryReference: 'enquiry' })
      const entry = (paymentReference: string) => ({
        type: 'Outwards',
        status: 'Completed',
        responseCode: '00',
        paymentReference,
        amount: Number(order.amountMinor) / 100,
      })
      const pages = [[entry('OTHER')], [entry(listedAs(order.reference) || 'ANOTHER')]]
      receiver.answer(({ path }) => {
        const { pathname, searchParams } = new URL(path, receiver.url)
        if (pathname.endsWith('/token')) return { status: 200, body: JSON.stringify(ISSUED) }
        if (!searchParams.has('page')) return { status: 400, body: '{"message":"Bad request."}' }
        const data = pages[Number(searchParams.get('page'))] ?? []
        return { status: 200, body: JSON.stringify({ statusCode: 200, data }) }
      })
      expect((await transfers({}, receiver.url).find(order, signal)).kind).toBe(kind)
    },
  )

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

  test('finds it though it was sent long before its last enquiry, or another bank stated the name', async () => {
    const sent = await enquired()
    await transfers().send(sent, signal)
    const listed = bank.outgoing.transfers as Map<string, object>
    listed.set(sent.reference, { ...booked(sent), atMs: Date.now() - 5 * DAY_MS })
    fail('status', 'statusCode 400')
    expect((await transfers().find(sent, signal)).kind).toBe('not found')
    const searchFromMs = Date.now() - 5 * DAY_MS
    for (const order of [await enquired(sent), { ...sent, enquiryReference: '' }]) {
      fail('status', 'statusCode 400')
      expect((await transfers().find({ ...order, searchFromMs }, signal)).kind).toBe('paid')
    }
  })
})

describe('the list of a busy account', () => {
  const unsent = (overrides: Partial<TransferOrder> = {}) => transferOrder(overrides)

  test('is read once for all look-ups at the same time', async () => {
    book(450)
    const connector = transfers()
    const sent = await enquired()
    await connector.send(sent, signal)
    fail('status', 'statusCode 400')
    const found = await Promise.all([
      connector.find(sent, signal),
      ...Array.from({ length: 40 }, () => connector.find(unsent(), signal)),
    ])
    expect(found.map(({ kind }) => kind)).toEqual(['paid', ...Array(40).fill('not found')])
    expect(bank.requests.transfers).toBe(5)
  })

  test('is read to its end though the first look-up ends before, and serves those that allow its age', async () => {
    book(1_500)
    let aheadMs = 0
    const clock = { now: () => Date.now() + aheadMs }
    const connector = transfersOf(haven.connector({}, { bank, clock }))
    const order = unsent()
    const stopped = new AbortController()
    atNextPage(() => stopped.abort())
    const reading = await connector.find(order, stopped.signal)
    expect(reading).toMatchObject({ kind: 'unknown', isReading: true })
    // One that needs an earlier part waits for the next reading.
    const earlier = unsent({ searchFromMs: order.searchFromMs - DAY_MS })
    expect(await connector.find(earlier, signal)).toMatchObject({ isReading: true })
    const first = await connector.find(order, signal)
    expect(first.kind === 'not found' && first.ageMs! > 0).toBe(true)
    expect(bank.requests.transfers).toBe(15)
    aheadMs = MINUTE_MS
    const listAgeMsMax = HOUR_MS
    const again = await connector.find(unsent({ ...order, listAgeMsMax }), signal)
    expect(again.kind === 'not found' && again.ageMs! >= MINUTE_MS).toBe(true)
    expect(bank.requests.transfers).toBe(15)
    expect((await connector.find({ ...earlier, listAgeMsMax }, signal)).kind).toBe('not found')
    expect(bank.requests.transfers).toBe(30)
  })

  test('that is short is read again at the next look-up', async () => {
    let nowMs = Date.now()
    const connector = transfersOf(haven.connector({}, { bank, clock: { now: () => nowMs } }))
    const order = unsent()
    expect((await connector.find(order, signal)).kind).toBe('not found')
    nowMs += MINUTE_MS
    expect((await connector.find(order, signal)).kind).toBe('not found')
    expect(bank.requests.transfers).toBe(2)
  })

  test('is read on after one page failed, and not if it fails again', async () => {
    book(120)
    for (const [failures, kind] of [
      [1, 'not found'],
      [2, 'unknown'],
    ] as const) {
      atNextPage(() => bank.faults.add('transfers', '500', failures))
      expect((await transfers().find(unsent(), signal)).kind).toBe(kind)
    }
  })
})

/** What `outgoing.send` takes, without a reference. */
function bookable() {
  const { amountMinor, narration, beneficiary } = transferOrder()
  return { amountMinor, narration, ...beneficiary }
}

/** The list shows a transfer that was sent once more. */
function sendAgain(order: TransferOrder, older: BookedState, newer: BookedState): void {
  const listed = bank.outgoing.transfers as Map<string, object>
  listed.set(order.reference, { ...booked(order), state: older })
  listed.delete('again')
  listed.set('again', { ...booked(order), state: newer })
}

/** Lists more transfers than are searched, after those that are booked. */
function overfill(): void {
  const { list } = bank.outgoing
  const other = bank.outgoing.send({ ...bookable(), reference: 'OTHER' }, undefined)
  const others = Array.from({ length: 30_001 }, () => other as BookedTransfer)
  bank.outgoing.list = () => [...list.call(bank.outgoing), ...others]
}

/** Runs while the bank reads the next page of its list. */
function atNextPage(run: () => void): void {
  const { list } = bank.outgoing
  const before = bank.requests.transfers
  bank.outgoing.list = () => {
    if (bank.requests.transfers > before) {
      bank.outgoing.list = list
      run()
    }
    return list.call(bank.outgoing)
  }
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
