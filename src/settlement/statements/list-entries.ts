import { getBusiness } from '../../businesses/get-business.ts'
import { Fault } from '../../core/errors.ts'
import {
  findSequenceBounds,
  lastSequenceBefore,
} from '../../events/balance-changes/business-sequences.ts'
import { cutScan } from '../../postgres/bounded-scan.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'
import type { Database } from '../../postgres/orm.ts'
import { invalidPageToken, readPage } from '../../postgres/page-token.ts'
import { findRange } from '../runs/store.ts'
import { type Balance, type BalanceKey, BEFORE_ALL } from '../settlement.ts'
import { type Entry, findKnownBalance, listRange, sumRange } from './store.ts'

interface ListEntries extends BalanceKey {
  /** Booked at this time or later. */
  readonly fromMs: number | undefined
  /** Booked before this time. */
  readonly toMs: number | undefined
  /** Only the events that this settlement covers; empty: any. */
  readonly settlementId?: string | undefined
  readonly pageSize: number
  readonly pageToken: string
}

/** A statement page: `opening` plus the entries equals `closing`. */
export interface EntryPage {
  readonly entries: readonly Entry[]
  readonly opening: Balance
  readonly closing: Balance
  readonly nextPageToken: string
}

/** Where a page starts, and its opening balance. The first page fixes the end of the period. */
interface PageStart {
  /** A sequence number, exclusive. */
  readonly after: bigint
  /** A sequence number, inclusive. */
  readonly upTo: bigint
  readonly opening: Balance
}

const ZERO_BALANCE: Balance = { pendingMinor: 0n, availableMinor: 0n, feesMinor: 0n }

/** @throws Fault validation_failed (the page token), not_found (the business, or the settlement) */
export async function listEntries(database: Database, request: ListEntries): Promise<EntryPage> {
  await getBusiness(database, request.businessId)
  return database.read((on) => readEntries(on, request))
}

async function readEntries(pool: Queryable, request: ListEntries): Promise<EntryPage> {
  const { businessId, live } = request
  const page = readPage(request.pageSize, request.pageToken, 5)
  const { after, upTo, opening } = page.after
    ? parsePageStart(page.after)
    : await findPageStart(pool, request)
  const range = { businessId, live, after, upTo }
  const { entries, readUpTo } = await listRange(pool, range, page.limit + 1)
  const closing = entries.slice(0, page.limit).reduce(add, opening)
  const keyOf = (sequence: bigint) => [
    `${sequence}`,
    `${upTo}`,
    `${closing.pendingMinor}`,
    `${closing.availableMinor}`,
    `${closing.feesMinor}`,
  ]
  const edge = readUpTo === undefined ? undefined : keyOf(readUpTo)
  const { rows, nextPageToken } = cutScan(entries, page, ({ sequence }) => keyOf(sequence), edge)
  return { entries: rows, opening, closing, nextPageToken }
}

/** The opening balance is the latest known balance before the period plus the events since it. */
async function findPageStart(
  pool: Queryable,
  { businessId, live, fromMs, toMs, settlementId }: ListEntries,
): Promise<PageStart> {
  const key = { businessId, live }
  if (settlementId) {
    const range = await findRange(pool, key, settlementId)
    if (range === undefined) throw new Fault('not_found', 'There is no such settlement')
    return { ...range, opening: await balanceAt(pool, key, range.after) }
  }
  const bounds = await findSequenceBounds(pool, key)
  if (bounds === undefined) return { after: 0n, upTo: 0n, opening: ZERO_BALANCE }
  const before = (atMs: number) => lastSequenceBefore(pool, key, atMs, bounds)
  const after = fromMs === undefined ? bounds.first - 1n : await before(fromMs)
  const upTo = toMs === undefined ? bounds.last : await before(toMs)
  return { after, upTo, opening: await balanceAt(pool, key, after) }
}

/** The balance after an event. */
async function balanceAt(pool: Queryable, key: BalanceKey, sequence: bigint): Promise<Balance> {
  const known = await findKnownBalance(pool, key, sequence)
  if (known?.sequence === sequence) return known.balance
  const range = { ...key, after: known?.sequence ?? BEFORE_ALL, upTo: sequence }
  return add(known?.balance ?? ZERO_BALANCE, await sumRange(pool, range))
}

function parsePageStart(key: readonly string[]): PageStart {
  if (!key.every((part) => /^-?\d{1,18}$/.test(part))) throw invalidPageToken()
  const [after = 0n, upTo = 0n, pendingMinor = 0n, availableMinor = 0n, feesMinor = 0n] =
    key.map(BigInt)
  return { after, upTo, opening: { pendingMinor, availableMinor, feesMinor } }
}

function add(a: Balance, b: Balance): Balance {
  return {
    pendingMinor: a.pendingMinor + b.pendingMinor,
    availableMinor: a.availableMinor + b.availableMinor,
    feesMinor: a.feesMinor + b.feesMinor,
  }
}
