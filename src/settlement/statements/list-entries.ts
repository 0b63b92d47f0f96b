import type { Pool } from 'pg'
import { getBusiness } from '../../businesses/get-business.ts'
import { cutScan } from '../../postgres/bounded-scan.ts'
import type { Database } from '../../postgres/orm.ts'
import { invalidPageToken, readPage } from '../../postgres/page-token.ts'
import { type Balance, BEFORE_ALL, type Book } from '../settlement.ts'
import { lastSequenceBefore } from './last-sequence.ts'
import { type Entry, findBooks, findEnds, listRange, sumRange } from './store.ts'

interface ListEntries extends Book {
  /** Booked at this time or later. */
  readonly fromMs: number | undefined
  /** Booked before this time. */
  readonly toMs: number | undefined
  readonly pageSize: number
  readonly pageToken: string
}

/** A page of a business's books that adds up by itself. */
export interface EntryPage {
  readonly entries: readonly Entry[]
  readonly opening: Balance
  readonly closing: Balance
  readonly nextPageToken: string
}

/** Where a page begins: after a number, at a balance. The period's end is fixed by its first page. */
interface Place {
  readonly after: bigint
  readonly upTo: bigint
  readonly opening: Balance
}

const NOTHING: Balance = { pendingMinor: 0n, availableMinor: 0n, feesMinor: 0n }

/** @throws Fault validation_failed (the token), not_found (the business) */
export async function listEntries(database: Database, request: ListEntries): Promise<EntryPage> {
  const { pool } = database
  const { businessId, live } = request
  await getBusiness(database, businessId)
  const page = readPage(request.pageSize, request.pageToken, 5)
  const { after, upTo, opening } = page.after ? readPlace(page.after) : await begin(pool, request)
  const found = await listRange(pool, { businessId, live, after, upTo }, page.limit + 1)
  const { entries, readUpTo } = found
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

/** The balance at the beginning of a period: the books as last known before it, and what came after. */
async function begin(pool: Pool, { businessId, live, fromMs, toMs }: ListEntries): Promise<Place> {
  const book = { businessId, live }
  const ends = await findEnds(pool, book)
  if (ends === undefined) return { after: 0n, upTo: 0n, opening: NOTHING }
  const before = (atMs: number) => lastSequenceBefore(pool, book, atMs, ends)
  const after = fromMs === undefined ? ends.first - 1n : await before(fromMs)
  const upTo = toMs === undefined ? ends.last : await before(toMs)
  const books = await findBooks(pool, book, after)
  const since = await sumRange(pool, { ...book, after: books?.at ?? BEFORE_ALL, upTo: after })
  return { after, upTo, opening: add(books?.balance ?? NOTHING, since) }
}

function readPlace(key: readonly string[]): Place {
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
