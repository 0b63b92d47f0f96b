import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import { type Actor, credentialIdOf } from '../auth/caller.ts'
import { Fault } from '../core/errors.ts'
import { createLoop, type Loop } from '../core/loop.ts'
import { UNKNOWN_MS_MAX } from '../payouts/list-waiting.ts'
import { booleanArray, textArray } from '../postgres/binary-arrays.ts'
import { inTransaction, type Queryable } from '../postgres/in-transaction.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { OVERDUE_MS, type ReviewItem, type ReviewKind, type ReviewNote } from './review-items.ts'

interface UpdateReviewItem {
  readonly item: ItemKey
  /** Empty: the item is unassigned; undefined: the assignee does not change. */
  readonly assignee: string | undefined
  /** Empty: the note is removed; undefined: the note does not change. */
  readonly note: string | undefined
}

type ItemKey = Pick<ReviewItem, 'kind' | 'id' | 'live'>

/**
 * Stores the assignee and note of a waiting item. The item itself is neither changed nor locked. Businesses see neither the
 * assignee nor the note, so the audit entry belongs to no business.
 *
 * @throws Fault not_found (no such item waits)
 */
export async function updateReviewItem(
  { database: { durablePool }, clock }: Runtime,
  { item, assignee, note }: UpdateReviewItem,
  actor: Actor,
): Promise<ReviewNote | undefined> {
  const nowMs = clock.now()
  const waiting = await findWaiting(durablePool, [item], nowMs)
  if (waiting.length === 0) throw notWaiting(item)
  return inTransaction(durablePool, async (client) => {
    const before = await lockNote(client, item, nowMs)
    const after = { assignee: assignee ?? before.assignee, note: note ?? before.note }
    const isChanged = after.assignee !== before.assignee || after.note !== before.note
    const stored = isChanged
      ? { ...after, notedAtMs: nowMs, notedBy: actor.name || credentialIdOf(actor) }
      : before
    await storeNote(client, item, stored)
    if (isChanged) {
      await appendAudit(client, actor, {
        action: 'review_item.update',
        targetId: item.id,
        details: { kind: item.kind, live: item.live, before: textsOf(before), after },
      })
    }
    return isNone(stored) ? undefined : stored
  })
}

function notWaiting({ kind, id, live }: ItemKey): Fault {
  const mode = live ? 'live' : 'test'
  return new Fault('not_found', `No item ${id} of the kind ${kind} waits in ${mode} mode`)
}

const textsOf = ({ assignee, note }: ReviewNote) => ({ assignee, note })

const isNone = ({ assignee, note }: ReviewNote) => assignee === '' && note === ''

/** Selects the items that still wait, by the conditions of `list-review-items.ts` and look-ups of unique indexes. */
async function findWaiting(
  on: Queryable,
  items: readonly ItemKey[],
  nowMs: number,
): Promise<readonly ItemKey[]> {
  const { rows } = await on.query<ItemKey>({
    name: 'review-items-find-waiting',
    text: `select k.kind, k.id, k.live
      from unnest($1::text[], $2::text[], $3::boolean[]) as k(kind, id, live)
      cross join lateral (
        select from unmatched_payment u
          where k.kind = 'UNMATCHED_PAYMENT' and u.id = k.id and k.live and u.resolution is null
          -- The payment was not recorded later.
          and not exists (
            select from payment_session s
              cross join lateral (select * from transaction where id = s.transaction_id offset 0) t
              join account a on a.id = t.account_id
            where s.session_id = u.session_id and s.bank = u.bank and s.live
              and t.amount_minor = u.amount_minor and a.account_number = u.account_number
              and (u.status in (t.status, 'PENDING') or (t.status = 'REVERSED' and u.status = 'SUCCESS')) offset 0)
        union all
        select from bank_notification
          where k.kind = 'HELD_NOTIFICATION' and id = k.id and k.live and state = 'MANUAL_REVIEW'
        union all
        select from payment_conflict c join transaction t on t.id = c.transaction_id
          where k.kind = 'PAYMENT_CONFLICT' and c.id = k.id and t.live = k.live and c.resolved_at is null
        union all
        select from account
          where k.kind = 'ACCOUNT_OPENING' and reference = k.id and live = k.live
          and status = 'PENDING' and opening_state = 'MANUAL_REVIEW'
        union all
        select from payment_variance
          where k.kind = 'HELD_PAYMENT' and transaction_id = k.id and live = k.live
          and hold in ('HELD', 'RETURN_REQUESTED')
        union all
        select from webhook_endpoint
          where k.kind = 'ENDPOINT' and id = k.id and live = k.live and deleted_at is null
          and (disabled_at is null and failing_since is not null or disabled_reason <> 'REQUESTED')
        union all
        select from settlement_due
          where k.kind = 'SETTLEMENT' and business_id = k.id and live = k.live and due_at <= $4
        union all
        select from payout
          where k.kind = 'PAYOUT_APPROVAL' and id = k.id and live = k.live and status = 'PENDING_APPROVAL'
        union all
        select from payout
          where k.kind = 'PAYOUT' and id = k.id and live = k.live
          and (status = 'MANUAL_REVIEW' or status = 'UNKNOWN' and submitted_at <= $5)
        union all
        select from payout_discrepancy
          where k.kind = 'PAYOUT_DISCREPANCY' and id = k.id and live = k.live and resolved_at is null
        offset 0
      ) item`,
    values: [
      textArray(items.map(({ kind }) => kind)),
      textArray(items.map(({ id }) => id)),
      booleanArray(items.map(({ live }) => live)),
      new Date(nowMs - OVERDUE_MS),
      new Date(nowMs - UNKNOWN_MS_MAX),
    ],
  })
  return rows
}

/** The note of an item, locked until the commit; empty if there was none. */
async function lockNote(
  client: Queryable,
  { kind, id, live }: ItemKey,
  nowMs: number,
): Promise<ReviewNote> {
  const { rows } = await client.query<ReviewNote>({
    name: 'review-note-lock',
    text: `insert into review_note (kind, item_id, live, assignee, note, noted_at, noted_by)
      values ($1, $2, $3, '', '', $4, '')
      on conflict (kind, item_id, live) do update set kind = excluded.kind
      returning assignee, note, round(date_part('epoch', noted_at) * 1000) as "notedAtMs", noted_by as "notedBy"`,
    values: [kind, id, live, new Date(nowMs)],
  })
  return rows[0] as ReviewNote
}

/** Stores the locked note of an item, or deletes it if both the assignee and the text are empty. */
async function storeNote(
  client: Queryable,
  { kind, id, live }: ItemKey,
  stored: ReviewNote,
): Promise<void> {
  if (isNone(stored)) {
    await client.query('delete from review_note where kind = $1 and item_id = $2 and live = $3', [
      kind,
      id,
      live,
    ])
    return
  }
  const { assignee, note, notedAtMs, notedBy } = stored
  await client.query(
    `update review_note set assignee = $4, note = $5, noted_at = $6, noted_by = $7
      where kind = $1 and item_id = $2 and live = $3`,
    [kind, id, live, assignee, note, new Date(notedAtMs), notedBy],
  )
}

/** How often the notes of items that no longer wait are deleted. */
const DELETE_EVERY_MS = 600_000

/** The most notes that one statement reads, and the most pages of one turn. */
const NOTES_MAX = 500
const PAGES_MAX = 100

/** Deletes the notes of items that no longer wait. An item that waits again later starts without a note. */
export function createNoteRetention(runtime: Runtime): Pick<Loop, 'start' | 'stop'> {
  return createLoop({
    name: 'retention of review notes',
    log: runtime.log,
    everyMs: DELETE_EVERY_MS,
    turn: async (signal) => void (await deleteEndedNotes(runtime, signal)),
  })
}

export async function deleteEndedNotes(
  { database: { durablePool }, clock }: Runtime,
  signal?: AbortSignal,
): Promise<void> {
  let last: ItemKey | undefined
  for (let page = 0; page < PAGES_MAX && !signal?.aborted; page++) {
    const noted = await listNoted(durablePool, last)
    const waiting = await findWaiting(durablePool, noted, clock.now())
    const keys = new Set(waiting.map(keyOf))
    await deleteNotes(
      durablePool,
      noted.filter((item) => !keys.has(keyOf(item))),
    )
    if (noted.length < NOTES_MAX) return
    last = noted.at(-1)
  }
}

const keyOf = ({ kind, id, live }: ItemKey) => `${kind} ${id} ${live}`

/** One page of the items that have notes. @param after the last item of the previous page */
async function listNoted(on: Queryable, after: ItemKey | undefined): Promise<readonly ItemKey[]> {
  const { kind = '', id = '', live = false } = after ?? {}
  const { rows } = await on.query<{ kind: ReviewKind; id: string; live: boolean }>(
    `select kind, item_id as id, live from review_note where (kind, item_id, live) > ($1, $2, $3)
      order by kind, item_id, live limit ${NOTES_MAX}`,
    [kind, id, live],
  )
  return rows
}

async function deleteNotes(on: Queryable, items: readonly ItemKey[]): Promise<void> {
  if (items.length === 0) return
  await on.query(
    `delete from review_note n using unnest($1::text[], $2::text[], $3::boolean[]) as k(kind, id, live)
      where n.kind = k.kind and n.item_id = k.id and n.live = k.live`,
    [
      textArray(items.map((item) => item.kind)),
      textArray(items.map((item) => item.id)),
      booleanArray(items.map((item) => item.live)),
    ],
  )
}
