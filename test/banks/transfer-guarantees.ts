import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import type { LiveConnector } from '../../src/banks/bank.ts'
import type {
  TransferServiceFault as Fault,
  TRANSFER_OPERATIONS,
} from '../../src/banks/fake/faults.ts'
import type { TransferBook } from '../../src/banks/fake/transfer-book.ts'
import type { TransferConnector, TransferOrder } from '../../src/banks/transfer.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../src/core/durations.ts'
import { abortedOnce, signal } from './fixture.ts'

type Operation = (typeof TRANSFER_OPERATIONS)[number]

/** The part of a fake bank from which money goes out. */
export interface FakeTransfers {
  readonly book: TransferBook
  readonly requests: Readonly<Record<Operation, number>>
  readonly faults: { add(operation: Operation, fault: Fault, times?: number): void }
}

interface Fixture {
  readonly transfers: TransferConnector
  readonly fake: FakeTransfers
}

export function transferOrder(overrides: Partial<TransferOrder> = {}): TransferOrder {
  return {
    reference: randomBytes(13).toString('hex').toUpperCase(),
    amountMinor: 200_045n,
    beneficiary: { bankCode: '000013', accountNumber: '0045434120', accountName: 'ADA OBI' },
    narration: 'Payout of November',
    enquiryReference: '',
    searchFromMs: Date.now() - MINUTE_MS,
    ...overrides,
  }
}

/**
 * Shows a fake bank by the operations and the faults that the guarantees speak of.
 *
 * @param own the bank's names of the operations
 * @param translated its faults for those that have no name of their own
 */
export function fakeTransfers<OwnOperation extends string, OwnFault extends string>(
  bank: {
    readonly outgoing: TransferBook
    readonly requests: Readonly<Record<OwnOperation, number>>
    readonly faults: { add(operation: OwnOperation, fault: OwnFault, times?: number): void }
  },
  own: Readonly<Record<Operation, OwnOperation>>,
  translated: Readonly<Partial<Record<Fault, OwnFault>>>,
): FakeTransfers {
  return {
    book: bank.outgoing,
    get requests() {
      const { enquire, send, find, account } = own
      const { requests } = bank
      return {
        enquire: requests[enquire],
        send: requests[send],
        find: requests[find],
        account: requests[account],
      }
    },
    faults: {
      add: (operation, fault, times) =>
        bank.faults.add(own[operation], translated[fault] ?? (fault as string as OwnFault), times),
    },
  }
}

/** @throws Error if no money goes out by this connector */
export function transfersOf({ transfers }: LiveConnector): TransferConnector {
  if (transfers === undefined) throw new Error('no transfers')
  return transfers
}

/**
 * What holds at every bank, whatever its format.
 *
 * @param start a fake bank without a session, and a connector to it
 * @param startWith the same for a connector to another address
 * @param unclear further faults after which a status proves nothing
 */
export function describeTransfers(
  start: () => Promise<Fixture>,
  startWith: (baseUrl: string) => Promise<Fixture>,
  unclear: readonly Fault[] = [],
): void {
  describe('a name enquiry', () => {
    test('returns the holder’s name, always the same one', async () => {
      const { transfers } = await start()
      const { beneficiary } = transferOrder()
      const found = await transfers.enquireName(beneficiary, signal)
      expect(found).toMatchObject({ kind: 'found', accountName: expect.stringMatching(/^[A-Z]+ /) })
      const again = await transfers.enquireName(beneficiary, signal)
      expect(again).toEqual({ ...found, enquiryReference: expect.any(String) })
    })

    test('says that there is no such account only if the bank says so', async () => {
      const { transfers, fake } = await start()
      const missing = { bankCode: '000013', accountNumber: '0000434120' }
      expect(await transfers.enquireName(missing, signal)).toMatchObject({ kind: 'not found' })
      for (const fault of ['odd code', '500', 'cut', 'page'] as const) {
        fake.faults.add('enquire', fault)
        const result = await transfers.enquireName(missing, signal)
        expect([fault, result.kind]).toEqual([fault, 'unavailable'])
      }
    })

    test('is unavailable if the bank denies access', async () => {
      const { transfers, fake } = await start()
      fake.faults.add('enquire', 'denied', 2)
      expect(await transfers.enquireName(transferOrder().beneficiary, signal)).toMatchObject({
        kind: 'unavailable',
        refusal: 'access',
      })
    })
  })

  describe('sending', () => {
    test('pays the beneficiary once, to the kobo', async () => {
      const { transfers, fake } = await start()
      const before = fake.book.floatMinor
      const order = transferOrder({ amountMinor: 99_999_999_99n })
      const result = await transfers.send(order, signal)
      const booked = fake.book.transfers.get(order.reference)
      expect(result).toEqual({ kind: 'paid', sessionId: booked?.sessionId })
      expect(booked).toMatchObject({
        amountMinor: 99_999_999_99n,
        bankCode: '000013',
        accountNumber: '0045434120',
        narration: 'Payout of November',
        debits: 1,
        state: 'paid',
      })
      expect(before - fake.book.floatMinor).toBe(99_999_999_99n)
    })

    test.each([
      'Ọ́bí: 5 < 6 & "7" + 100%',
      'Ade\u0301 in two characters, or Ad\u00e9 in one',
      'שלום, مرحبا',
      '\u{1f600}'.repeat(100),
    ])('has the narration arrive as it was written: %s', async (narration) => {
      const { transfers, fake } = await start()
      const order = transferOrder({ narration })
      expect(await transfers.send(order, signal)).toMatchObject({ kind: 'paid' })
      expect(fake.book.transfers.get(order.reference)?.narration).toBe(narration)
    })

    test.each<[Fault, object]>([
      ['insufficient', { kind: 'failed', reason: 'insufficient_float' }],
      ['rejected', { kind: 'failed', reason: 'beneficiary_rejected' }],
    ])('fails only if the bank refuses: %s', async (fault, expected) => {
      const { transfers, fake } = await start()
      const before = fake.book.floatMinor
      fake.faults.add('send', fault)
      expect(await transfers.send(transferOrder(), signal)).toMatchObject(expected)
      expect(fake.book.floatMinor).toBe(before)
    })

    test('fails for want of float', async () => {
      const { transfers, fake } = await start()
      fake.book.floatMinor = 200_044n
      expect(await transfers.send(transferOrder(), signal)).toMatchObject({
        reason: 'insufficient_float',
      })
    })

    test.each<[Fault, number]>([
      ['500', 0],
      ['500 after', 1],
      ['cut', 0],
      ['cut after', 1],
      ['page', 0],
      ['page after', 1],
      ['odd code', 0],
      ['other reference', 1],
    ])(
      'has an unknown result after %s, and its state is found by asking',
      async (fault, debits) => {
        const { transfers, fake } = await start()
        const order = transferOrder()
        fake.faults.add('send', fault)
        expect(await transfers.send(order, signal)).toMatchObject({ kind: 'unknown' })
        expect(fake.book.transfers.get(order.reference)?.debits ?? 0).toBe(debits)
        expect(await transfers.find(order, signal)).toMatchObject({
          kind: debits === 1 ? 'paid' : 'not found',
        })
        expect(fake.requests.send).toBe(1)
      },
    )

    test('has an unknown result if the bank debits and does not respond in time', async () => {
      const { transfers, fake } = await start()
      const order = transferOrder()
      fake.faults.add('send', 'hang after')
      const result = await abortedOnce(
        () => fake.book.transfers.has(order.reference),
        (aborted) => transfers.send(order, aborted),
      )
      expect(result).toMatchObject({ kind: 'unknown' })
      expect(await transfers.find(order, signal)).toMatchObject({ kind: 'paid' })
    })

    test('is unknown, not failed, if the bank says that the reference was used before', async () => {
      const { transfers, fake } = await start()
      const order = transferOrder()
      await transfers.send(order, signal)
      expect(await transfers.send(order, signal)).toMatchObject({ kind: 'unknown' })
      expect(fake.book.transfers.get(order.reference)?.debits).toBe(1)
    })

    test('twice debits twice at a bank that does not recognise the reference', async () => {
      const { transfers, fake } = await start()
      const order = transferOrder()
      await transfers.send(order, signal)
      fake.book.paysTwice = true
      expect(await transfers.send(order, signal)).toMatchObject({ kind: 'paid' })
      expect(fake.book.transfers.get(order.reference)?.debits).toBe(2)
    })

    test('is unknown if the bank denies access', async () => {
      const { transfers, fake } = await start()
      fake.faults.add('send', 'denied', 2)
      expect(await transfers.send(transferOrder(), signal)).toMatchObject({
        kind: 'unknown',
        refusal: 'access',
      })
    })

    test('is certain not to have happened only if no connection was made', async () => {
      const { transfers } = await startWith('http://127.0.0.1:1')
      expect(await transfers.send(transferOrder(), signal)).toMatchObject({ kind: 'not sent' })
    })
  })

  describe('asking', () => {
    test.each<[Fault, number, string]>([
      ['pays later', MINUTE_MS, 'paid'],
      ['fails later', HOUR_MS, 'failed'],
    ])('shows a transfer as pending until the bank %s', async (fault, afterMs, kind) => {
      const { transfers, fake } = await start()
      const order = transferOrder()
      fake.faults.add('send', fault)
      expect(await transfers.send(order, signal)).toMatchObject({ kind: 'pending' })
      expect(await transfers.find(order, signal)).toMatchObject({ kind: 'pending' })
      fake.book.elapse(afterMs)
      expect(await transfers.find(order, signal)).toMatchObject({ kind })
    })

    test('finds that a transfer was returned three days after it was paid', async () => {
      const { transfers, fake } = await start()
      const before = fake.book.floatMinor
      const order = transferOrder()
      fake.faults.add('send', 'returns later')
      expect(await transfers.send(order, signal)).toMatchObject({ kind: 'paid' })
      fake.book.elapse(3 * DAY_MS)
      expect(await transfers.find(order, signal)).toMatchObject({ kind: 'returned' })
      expect(fake.book.floatMinor).toBe(before)
    })

    test('does not find a transfer that the bank does not know, or not yet', async () => {
      const { transfers, fake } = await start()
      const order = transferOrder()
      expect(await transfers.find(order, signal)).toMatchObject({ kind: 'not found' })
      fake.faults.add('send', 'hides')
      await transfers.send(order, signal)
      expect(await transfers.find(order, signal)).toMatchObject({ kind: 'not found' })
      fake.book.elapse(MINUTE_MS)
      expect(await transfers.find(order, signal)).toMatchObject({ kind: 'paid' })
      expect(transfers.consistencyMs).toBeGreaterThan(60_000)
    })

    test.each<Fault>(['500', 'cut', 'page', 'odd code', 'other reference', ...unclear])(
      'proves nothing after %s',
      async (fault) => {
        const { transfers, fake } = await start()
        const order = transferOrder()
        await transfers.send(order, signal)
        fake.faults.add('find', fault)
        expect(await transfers.find(order, signal)).toMatchObject({ kind: 'unknown' })
      },
    )

    test('proves nothing if the bank denies access', async () => {
      const { transfers, fake } = await start()
      fake.faults.add('find', 'denied', 2)
      expect(await transfers.find(transferOrder(), signal)).toMatchObject({
        kind: 'unknown',
        refusal: 'access',
      })
    })
  })

  describe('the float', () => {
    test('is what the operator’s account has available', async () => {
      const { transfers, fake } = await start()
      fake.book.floatMinor = 123_456_789_01n
      expect(await transfers.readFloat?.(signal)).toEqual({
        kind: 'read',
        availableMinor: 123_456_789_01n,
      })
    })

    test('is unavailable, not zero, if the bank does not state it', async () => {
      const { transfers, fake } = await start()
      for (const fault of ['500', 'cut', 'page', 'odd code'] as const) {
        fake.faults.add('account', fault)
        expect(await transfers.readFloat?.(signal)).toMatchObject({ kind: 'unavailable' })
      }
    })
  })
}
