import { countInReview, listInReview } from '../../accounts/openings/list-in-review.ts'
import * as notifications from '../../notifications/held-notifications.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'
import { invalidPageToken } from '../../postgres/page-token.ts'
import { countOverdueBalances, listOverdue } from '../../settlement/overdue.ts'
import {
  countWaitingConflicts,
  listOldestConflicts,
} from '../../transactions/conflicts/resolve-conflict.ts'
import {
  countWaitingUnmatched,
  listOldestUnmatched,
} from '../../transactions/unmatched/oldest-unmatched.ts'
import { countHeld, listOldestHeld } from '../../transactions/variance/list-held.ts'
import { countUnhealthy, listUnhealthy } from '../../webhooks/endpoints/list-unhealthy.ts'
import type { Scope } from '../scope.ts'
import type { ReviewItem, ReviewKind } from './item.ts'
import * as items from './items.ts'

/** Items of one kind. */
interface Found {
  /** Oldest first. */
  readonly items: readonly ReviewItem[]
  /** The place up to which it scanned, if it stopped before the end of the list. */
  readonly readUpTo?: string | undefined
}

/** The list of one kind. */
interface Source {
  list(on: Queryable, scope: Scope, after: string, limit: number, nowMs: number): Promise<Found>
  /** Counts up to `max`. */
  count(on: Queryable, scope: Scope, max: number, nowMs: number): Promise<number>
}

/** The most items of a kind that are counted. */
export const COUNT_MAX = 1_000

/** A balance is settled within seconds after it is due. */
const OVERDUE_MS = 600_000

/** What no business has, and only live mode. */
const ofNoBusiness = ({ businessIds, live }: Scope) => businessIds === undefined && live !== false

const NOTHING: Found = { items: [] }

/** Where the items of each kind come from. Each list has an index. */
export const SOURCES: Readonly<Record<ReviewKind, Source>> = {
  UNMATCHED_PAYMENT: {
    async list(on, scope, after, limit) {
      if (!ofNoBusiness(scope)) return NOTHING
      const { payments, readUpTo } = await listOldestUnmatched(on, after, limit)
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
      items: (await listOldestHeld(on, scope, after, limit)).map(items.ofHeld),
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
}

/** @returns the parts of a place; none for the beginning */
function readKey(key: string, format: RegExp): readonly string[] {
  if (key === '') return []
  const match = format.exec(key)
  if (match === null) throw invalidPageToken()
  return match.slice(1)
}
