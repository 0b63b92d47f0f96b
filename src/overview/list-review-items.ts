import { countInReview, listInReview } from '../accounts/resolve-account.ts'
import { registerSampledGauges } from '../core/sampled-gauges.ts'
import * as notifications from '../notifications/held-notifications.ts'
import { countDiscrepancies, listOldestDiscrepancies } from '../payouts/discrepancies.ts'
import {
  countAwaitingApproval,
  countUnclear,
  listAwaitingApproval,
  listUnclear,
} from '../payouts/list-waiting.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import type { Database } from '../postgres/orm.ts'
import { invalidPageToken, pageTokenOf, readPage } from '../postgres/page-token.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { countOverdueBalances, listOverdue } from '../settlement/overdue.ts'
import { countWaitingConflicts, listOldestConflicts } from '../transactions/conflicts.ts'
import { countWaitingUnmatched, listOpenUnmatched } from '../transactions/unmatched-store.ts'
import { countHeld, listHeldBy } from '../transactions/variance/list-held.ts'
import { countUnhealthy, listUnhealthy } from '../webhooks/endpoints/list-unhealthy.ts'
import * as items from './review-items.ts'
import {
  OPERATOR_KINDS,
  OVERDUE_MS,
  REVIEW_KINDS,
  type ReviewAccount,
  type ReviewItem,
  type ReviewKind,
  type ReviewNote,
} from './review-items.ts'
import type { Scope } from './scope.ts'

interface ListReviewItems {
  readonly scope: Scope
  /** Empty: all kinds that the caller may see. */
  readonly kinds: readonly ReviewKind[]
  readonly pageSize: number
  readonly pageToken: string
}

/** The number of waiting items of a kind. */
export interface ReviewCount {
  readonly kind: ReviewKind
  readonly count: number
  /** Whether there are more items than `count`. */
  readonly more: boolean
}

interface ReviewPage {
  readonly items: readonly ReviewItem[]
  readonly nextPageToken: string
  /** Only on the first page. */
  readonly counts: readonly ReviewCount[] | undefined
}

/** Marks, in a page token, that the list of a kind has ended. */
const ENDED = '~'

/**
 * One page of the items that wait for a decision, oldest first. Every kind has a list and an index of its own. A page merges
 * the oldest items of all lists, and its token names a position in each list.
 *
 * @throws Fault validation_failed (the page token)
 */
export async function listReviewItems(
  { database, clock }: Runtime,
  { scope, kinds, pageSize, pageToken }: ListReviewItems,
): Promise<ReviewPage> {
  const page = readPage(pageSize, pageToken, REVIEW_KINDS.length)
  const nowMs = clock.now()
  const places = page.after ?? REVIEW_KINDS.map(() => '')
  const wanted = kindsOf(scope, kinds)
  const lists = await Promise.all(
    REVIEW_KINDS.map(async (kind, index): Promise<KindList> => {
      const after = places[index] ?? ''
      if (!wanted.has(kind) || after === ENDED) return { place: ENDED, items: [], end: ENDED }
      const { list } = SOURCES[kind]
      const found = await database.read((on) => list(on, scope, after, page.limit + 1, nowMs))
      return { place: after, items: found.items, end: found.readUpTo ?? ENDED }
    }),
  )
  const items = mergeOldest(lists, page.limit)
  const next = lists.map((list) => placeAfter(list, items))
  return {
    items: await database.read((on) => describeItems(on, items, scope)),
    nextPageToken: next.every((place) => place === ENDED) ? '' : pageTokenOf(next),
    counts:
      page.after === undefined ? await countReviewItems(database, scope, kinds, nowMs) : undefined,
  }
}

/** Adds the accounts and business names of items, and for operators the assignees and notes, by one statement. */
async function describeItems(
  on: Queryable,
  found: readonly ReviewItem[],
  { isOperator }: Scope,
): Promise<readonly ReviewItem[]> {
  interface Row {
    readonly at: number
    readonly businessName: string | null
    readonly account: ReviewAccount | null
    readonly noted: ReviewNote | null
  }
  const named = found.map(({ accountOf }) => ({ reference: '', accountNumber: '', ...accountOf }))
  const { rows } = await on.query<Row>({
    name: 'overview-describe-review-items',
    text: `select k.at::int,
        (select name from business where id = coalesce(nullif(k.business_id, ''), a.business_id)) as "businessName",
        case when a.id is not null then json_build_object(
          'businessId', a.business_id, 'reference', a.reference, 'accountNumber', coalesce(a.account_number, ''),
          'customerName', a.first_name || ' ' || a.last_name, 'status', a.status) end as account,
        case when n.kind is not null then json_build_object('assignee', n.assignee, 'note', n.note,
          'notedAtMs', round(date_part('epoch', n.noted_at) * 1000), 'notedBy', n.noted_by) end as noted
      from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::boolean[], $6::text[], $7::text[])
          with ordinality as k(business_id, reference, account_number, bank, live, kind, id, at)
        left join review_note n on $8 and n.kind = k.kind and n.item_id = k.id and n.live = k.live
        -- Two look-ups, each in a unique index.
        left join lateral (
          select * from account where reference = k.reference
          union all
          select * from account where account_number = k.account_number and bank = k.bank and live = k.live
        ) a on true`,
    values: [
      found.map(({ businessId }) => businessId),
      named.map(({ reference }) => reference),
      named.map(({ accountNumber }) => accountNumber),
      found.map(({ bank }) => bank ?? ''),
      found.map(({ live }) => live),
      found.map(({ kind }) => kind),
      found.map(({ id }) => id),
      isOperator,
    ],
  })
  const known = new Map(rows.map((row) => [row.at, row]))
  return found.map((item, index) => {
    const { businessName, account, noted } = known.get(index + 1) ?? {}
    return {
      ...item,
      ...(businessName && { businessName }),
      ...(account && { account }),
      ...(noted && { noted }),
    }
  })
}

/** Counts the waiting items by kind. Kinds without items are left out. */
export async function countReviewItems(
  { read }: Database,
  scope: Scope,
  kinds: readonly ReviewKind[],
  nowMs: number,
): Promise<readonly ReviewCount[]> {
  const counts = await Promise.all(
    [...kindsOf(scope, kinds)].map(async (kind) => {
      const count = await read((on) => SOURCES[kind].count(on, scope, COUNT_MAX + 1, nowMs))
      return { kind, count: Math.min(count, COUNT_MAX), more: count > COUNT_MAX }
    }),
  )
  return counts.filter(({ count }) => count > 0)
}

function kindsOf(scope: Scope, kinds: readonly ReviewKind[]): ReadonlySet<ReviewKind> {
  const requested = kinds.length === 0 ? REVIEW_KINDS : kinds
  return new Set(requested.filter((kind) => scope.isOperator || !OPERATOR_KINDS.has(kind)))
}

/** The next items of one kind. */
interface KindList {
  /** The position before the items. */
  readonly place: string
  /** Oldest first. */
  readonly items: readonly ReviewItem[]
  /** The position after the items. */
  readonly end: string
}

/** Merges the lists, always taking the oldest first item. It skips no item, even if the times of a list are not in order. */
function mergeOldest(lists: readonly KindList[], limit: number): readonly ReviewItem[] {
  const rest = lists.map(({ items }) => [...items])
  const merged: ReviewItem[] = []
  while (merged.length < limit) {
    const heads = rest.filter((items) => items.length > 0)
    const [oldest] = heads.sort((a, b) => (a[0]?.sinceMs ?? 0) - (b[0]?.sinceMs ?? 0))
    const item = oldest?.shift()
    if (item === undefined) break
    merged.push(item)
  }
  return merged
}

/** Where the next page of a kind begins. */
function placeAfter({ place, items, end }: KindList, shown: readonly ReviewItem[]): string {
  const taken = items.filter((item) => shown.includes(item))
  if (taken.length === items.length) return end
  return taken.at(-1)?.key ?? place
}

/** Items of one kind. */
interface Found {
  /** Oldest first. */
  readonly items: readonly ReviewItem[]
  /** The position up to which the list was scanned, if the scan stopped before the end of the list. */
  readonly readUpTo?: string | undefined
}

/** The list of one kind. */
interface Source {
  list(on: Queryable, scope: Scope, after: string, limit: number, nowMs: number): Promise<Found>
  /** Counts up to `max`. */
  count(on: Queryable, scope: Scope, max: number, nowMs: number): Promise<number>
}

/** The most items of a kind that are counted. */
const COUNT_MAX = 1_000

/** Whether a scope includes items that belong to no business. Such items exist only in live mode. */
const ofNoBusiness = ({ businessIds, live }: Scope) => businessIds === undefined && live !== false

const NOTHING: Found = { items: [] }

/** Where the items of each kind come from. Each list has an index. */
const SOURCES: Readonly<Record<ReviewKind, Source>> = {
  UNMATCHED_PAYMENT: {
    async list(on, scope, after, limit) {
      if (!ofNoBusiness(scope)) return NOTHING
      const { payments, readUpTo } = await listOpenUnmatched(
        on,
        { order: 'oldest' },
        after || undefined,
        limit,
      )
      return { items: payments.map(items.ofUnmatched), readUpTo }
    },
    count: async (on, scope, max) => (ofNoBusiness(scope) ? countWaitingUnmatched(on, max) : 0),
  },
  HELD_NOTIFICATION: {
    async list(on, scope, after, limit) {
      if (!ofNoBusiness(scope)) return NOTHING
      const held = await notifications.listOldestHeld(on, after, limit)
      return { items: held.map(items.ofNotification) }
    },
    count: async (on, scope, max) => (ofNoBusiness(scope) ? notifications.countHeld(on, max) : 0),
  },
  PAYMENT_CONFLICT: {
    async list(on, scope, after, limit) {
      const { conflicts, readUpTo } = await listOldestConflicts(on, scope, after, limit)
      return { items: conflicts.map(items.ofConflict), readUpTo }
    },
    count: countWaitingConflicts,
  },
  ACCOUNT_OPENING: {
    list: async (on, scope, after, limit) => ({
      items: (await listInReview(on, scope, after, limit)).map(items.ofOpening),
    }),
    count: countInReview,
  },
  HELD_PAYMENT: {
    list: async (on, scope, after, limit) => ({
      items: (await listHeldBy(on, scope, 'asc', after, limit)).map(items.ofHeld),
    }),
    count: countHeld,
  },
  ENDPOINT: {
    async list(on, scope, after, limit) {
      const [since = 0, id = ''] = readKey(after, /^(\d{1,14}) (\w{1,60})$/)
      const place = { sinceMs: Number(since), id }
      return { items: (await listUnhealthy(on, scope, place, limit)).map(items.ofEndpoint) }
    },
    count: countUnhealthy,
  },
  SETTLEMENT: {
    async list(on, scope, after, limit, nowMs) {
      const [due, mode = '', businessId = ''] = readKey(
        after,
        /^(\d{1,14}) (live|test) (\w{1,60})$/,
      )
      const place =
        due === undefined ? undefined : { dueAtMs: Number(due), businessId, live: mode === 'live' }
      const overdue = { ...scope, byMs: nowMs - OVERDUE_MS }
      return { items: (await listOverdue(on, overdue, place, limit)).map(items.ofSettlement) }
    },
    count: (on, scope, max, nowMs) =>
      countOverdueBalances(on, { ...scope, byMs: nowMs - OVERDUE_MS }, max),
  },
  PAYOUT_APPROVAL: {
    list: async (on, scope, after, limit) => ({
      items: (await listAwaitingApproval(on, scope, after, limit)).map(items.ofApproval),
    }),
    count: countAwaitingApproval,
  },
  PAYOUT: {
    list: async (on, scope, after, limit, nowMs) => ({
      items: (await listUnclear(on, scope, after, limit, nowMs)).map(items.ofPayout),
    }),
    count: countUnclear,
  },
  PAYOUT_DISCREPANCY: {
    list: async (on, scope, after, limit) => ({
      items: (await listOldestDiscrepancies(on, scope, after, limit)).map(items.ofDiscrepancy),
    }),
    count: countDiscrepancies,
  },
}

/** @returns the parts of a position; empty at the beginning */
function readKey(key: string, format: RegExp): readonly string[] {
  if (key === '') return []
  const match = format.exec(key)
  if (match === null) throw invalidPageToken()
  return match.slice(1)
}

interface Waiting {
  readonly kind: ReviewKind
  readonly count: number
  readonly oldestSeconds: number
}

/** Operators are on call for live mode. */
const SCOPE: Scope = { businessIds: undefined, live: true, isOperator: true }

/** A sample takes two statements for each kind, so it is read less often than other gauges. */
const PERIOD_MS = 10_000

/** How many items of each kind wait in live mode, and how long the oldest has waited. */
async function readWaiting({ read }: Database, nowMs: number): Promise<readonly Waiting[]> {
  return Promise.all(
    REVIEW_KINDS.map(async (kind) => {
      const { count, list } = SOURCES[kind]
      const waiting = await read((on) => count(on, SCOPE, COUNT_MAX, nowMs))
      const { items } =
        waiting === 0 ? { items: [] } : await read((on) => list(on, SCOPE, '', 1, nowMs))
      const oldestSeconds = Math.max(0, nowMs - (items[0]?.sinceMs ?? nowMs)) / 1_000
      return { kind, count: waiting, oldestSeconds }
    }),
  )
}

/** Registers the gauges of the items that wait for a decision of an operator. */
export function registerReviewMetrics({ metrics, database, clock }: Runtime): void {
  const gauge = (name: string, help: string, measure: (of: Waiting) => number) => ({
    name,
    help,
    labelNames: ['kind'],
    measure: (waiting: readonly Waiting[]) =>
      waiting.map((each) => ({ labels: { kind: each.kind }, value: measure(each) })),
  })
  registerSampledGauges(
    metrics,
    () => readWaiting(database, clock.now()),
    [
      gauge(
        'inflow_review_items',
        'Items in manual review in live mode, by kind: up to 1,000 of each.',
        ({ count }) => count,
      ),
      gauge(
        'inflow_review_oldest_seconds',
        'How long the oldest item in manual review in live mode has waited, by kind.',
        ({ oldestSeconds }) => oldestSeconds,
      ),
    ],
    { periodMs: PERIOD_MS },
  )
}
