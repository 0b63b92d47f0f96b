import type { EntityManager } from '@mikro-orm/postgresql'
import type { Pool } from 'pg'
import type { BankCode, NotificationOutcome } from '../banks/bank.ts'
import {
  type Call,
  createIsolatingBatcher,
  type ObserveBatches,
  runStatement,
} from '../postgres/batcher.ts'
import {
  bigintArray,
  byteaArray,
  integerArray,
  textArray,
  timestampArray,
} from '../postgres/binary-arrays.ts'
import { queriesOf } from '../postgres/queries-of.ts'
import type { NotificationEntity, NotificationState } from './notification.entity.ts'

export interface NewNotification {
  readonly id: string
  readonly bank: BankCode
  /** SHA-256 of the body. */
  readonly bodyDigest: Buffer
  readonly receivedAtMs: number
  readonly rawEncrypted: Buffer
  readonly bankKey: string
  /** This field and the next two describe the reported payment; empty or 0 if it could not be read. */
  readonly accountNumber: string
  readonly sessionId: string
  readonly amountMinor: bigint
  /** When the service retries the notification if this process dies. */
  readonly nextTryAtMs: number
}

/** A notification that was received before. */
export interface StoredNotification {
  readonly id: string
  readonly state: NotificationState
  readonly outcome: NotificationOutcome
  readonly tries: number
}

/**
 * Stores notifications as pending, in one commit. A notification whose body is already stored is left out.
 *
 * @returns the ids of the new rows
 */
export async function insertNotifications(
  pool: Pool,
  rows: readonly NewNotification[],
): Promise<ReadonlySet<string>> {
  const result = await runStatement<{ id: string }>(pool, {
    name: 'notification-store',
    text: `insert into bank_notification (id, bank, body_digest, received_at, raw_encrypted, bank_key,
        account_number, session_id, amount_minor, state, outcome, cause, tries, next_try_at)
      select id, bank, body_digest, received_at, raw_encrypted, bank_key, account_number, session_id,
        amount_minor, 'PENDING', 'RETRY', '', 0, next_try_at
      from unnest($1::text[], $2::text[], $3::bytea[], $4::timestamptz[], $5::bytea[], $6::text[],
        $7::timestamptz[], $8::text[], $9::text[], $10::bigint[])
        as i(id, bank, body_digest, received_at, raw_encrypted, bank_key, next_try_at, account_number,
          session_id, amount_minor)
      -- Every batch inserts index entries in the same order, to prevent deadlocks.
      order by bank, body_digest
      on conflict (bank, body_digest) do nothing returning id`,
    values: [
      textArray(rows.map((row) => row.id)),
      textArray(rows.map((row) => row.bank)),
      byteaArray(rows.map((row) => row.bodyDigest)),
      timestampArray(rows.map((row) => row.receivedAtMs)),
      byteaArray(rows.map((row) => row.rawEncrypted)),
      textArray(rows.map((row) => row.bankKey)),
      timestampArray(rows.map((row) => row.nextTryAtMs)),
      textArray(rows.map((row) => row.accountNumber)),
      textArray(rows.map((row) => row.sessionId)),
      bigintArray(rows.map((row) => row.amountMinor)),
    ],
  })
  return new Set(result.rows.map((row) => row.id))
}

/**
 * Stores a payment that the bank listed as a pending notification, unless a notification of the payment waits, or was
 * resolved by an operator.
 *
 * @returns whether it was stored
 */
export async function insertListed(pool: Pool, row: NewNotification): Promise<boolean> {
  const { rowCount } = await pool.query(
    `insert into bank_notification (id, bank, body_digest, received_at, raw_encrypted, bank_key,
        account_number, session_id, amount_minor, state, outcome, cause, tries, next_try_at, listed)
      select $1, $2::text, $3, $4, $5, $6::text, $7, $8, $9, 'PENDING', 'RETRY', '', 0, $10, true
      where not exists (
        select from bank_notification
        where bank_key = $6 and bank_key <> '' and bank = $2 and (state <> 'PROCESSED' or resolved_at is not null))
      on conflict (bank, body_digest) do nothing`,
    [
      row.id,
      row.bank,
      row.bodyDigest,
      new Date(row.receivedAtMs),
      row.rawEncrypted,
      row.bankKey,
      row.accountNumber,
      row.sessionId,
      row.amountMinor,
      new Date(row.nextTryAtMs),
    ],
  )
  return rowCount === 1
}

/** @returns the notifications stored for these bodies, in order; undefined where there is none */
async function findNotifications(
  pool: Pool,
  bodies: readonly Pick<NewNotification, 'bank' | 'bodyDigest'>[],
): Promise<readonly (StoredNotification | undefined)[]> {
  const result = await pool.query<{
    [Key in keyof StoredNotification]: StoredNotification[Key] | null
  }>({
    name: 'notification-find-bodies',
    text: `select n.id, n.state, n.outcome, n.tries
      from unnest($1::text[], $2::bytea[]) with ordinality as i(bank, body_digest, at)
        -- With a limit: the planner may read the whole table for a join while that is small.
        left join lateral (
          select * from bank_notification b
          where b.bank = i.bank and b.body_digest = i.body_digest limit 1
        ) n on true
      order by i.at`,
    values: [
      textArray(bodies.map(({ bank }) => bank)),
      byteaArray(bodies.map(({ bodyDigest }) => bodyDigest)),
    ],
  })
  return result.rows.map((row) => (row.id === null ? undefined : (row as StoredNotification)))
}

export interface Processed {
  readonly state: NotificationState
  readonly outcome: NotificationOutcome
  readonly cause: string
  /** Undefined unless the state is PENDING. */
  readonly nextTryAtMs: number | undefined
  /** Set if the state is MANUAL_REVIEW. The event is appended unless the notification was held before. */
  readonly heldEvent?: HeldEvent | undefined
}

/** The event of a held notification. It belongs to no business, so only operators receive it. */
interface HeldEvent {
  readonly id: string
  readonly occurredAtMs: number
  readonly payload: Uint8Array
}

/** The result of a notification, with the number of its tries. */
interface Finished extends Processed {
  readonly id: string
  readonly tries: number
}

/**
 * Stores the results of processing notifications, in one commit, except for notifications that are already processed.
 *
 * @param finished contains each notification once
 */
export async function finishNotifications(
  pool: Pool,
  finished: readonly Finished[],
): Promise<void> {
  await runStatement(pool, {
    name: 'notification-finish',
    text: `with input as (
        select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[],
          $6::integer[], $7::text[], $8::timestamptz[], $9::bytea[])
          as i(id, new_state, new_outcome, new_cause, new_next_try_at, new_tries, event_id, held_at,
            payload)
      ), locked as (
        -- Every statement locks in this order, to prevent deadlocks.
        select id, state as old_state from bank_notification
        where id = any ($1::text[]) and (state <> 'PROCESSED' or outcome = 'UNCONFIRMED')
        order by id for no key update
      ), published as (
        insert into outbox (event_id, business_id, live, kind, occurred_at, payload)
        select event_id, '', true, 'PAYMENT_HELD', held_at, payload
        from input join locked using (id) where event_id <> '' and old_state <> 'MANUAL_REVIEW'
      )
      update bank_notification n set state = new_state, outcome = new_outcome, cause = new_cause,
        next_try_at = new_next_try_at, tries = tries + new_tries,
        refused = refused or new_outcome in ('UNCONFIRMED', 'MANUAL_REVIEW')
      from input join locked using (id) where n.id = input.id and n.id = any ($1::text[])`,
    values: [
      textArray(finished.map(({ id }) => id)),
      textArray(finished.map(({ state }) => state)),
      textArray(finished.map(({ outcome }) => outcome)),
      textArray(finished.map(({ cause }) => cause)),
      finished.map(({ nextTryAtMs: ms }) => (ms === undefined ? null : new Date(ms))),
      integerArray(finished.map(({ tries }) => tries)),
      textArray(finished.map(({ heldEvent }) => heldEvent?.id ?? '')),
      timestampArray(finished.map(({ heldEvent }) => heldEvent?.occurredAtMs ?? 0)),
      byteaArray(finished.map(({ heldEvent }) => heldEvent?.payload ?? new Uint8Array())),
    ],
  })
}

/** Whether any report of a payment was refused: not confirmed by its bank, or held. */
export async function wasRefused(pool: Pool, bank: BankCode, bankKey: string): Promise<boolean> {
  const { rows } = await pool.query<{ refused: boolean }>({
    name: 'notification-refused',
    text: `select exists (select from bank_notification
      where bank_key = $2 and bank_key <> '' and bank = $1 and refused) as refused`,
    values: [bank, bankKey],
  })
  return rows[0]?.refused === true
}

export type DueNotification = StoredNotification &
  Pick<
    NewNotification,
    'bank' | 'receivedAtMs' | 'rawEncrypted' | 'accountNumber' | 'sessionId' | 'amountMinor'
  > & {
    /** Whether the bank listed the payment: `listedPayment` reads the body. */
    readonly listed: boolean
  }

/** Claims due pending notifications until `untilMs`; concurrent instances claim different notifications. */
export async function claimDueNotifications(
  pool: Pool,
  banks: readonly BankCode[],
  nowMs: number,
  untilMs: number,
  limit: number,
): Promise<DueNotification[]> {
  type Row = Omit<DueNotification, 'amountMinor'> & { readonly amount: string }
  const { rows } = await pool.query<Row>({
    name: 'notification-claim-due',
    text: `with due as (
        select id as due_id from bank_notification
        where state = 'PENDING' and next_try_at <= $2 and bank = any($1)
        order by next_try_at limit $4 for update skip locked
      )
      update bank_notification set next_try_at = $3 from due where id = due_id
      returning id, bank, state, outcome, tries, raw_encrypted as "rawEncrypted",
        account_number as "accountNumber", session_id as "sessionId", amount_minor as amount, listed,
        round(date_part('epoch', received_at) * 1000) as "receivedAtMs"`,
    values: [banks, new Date(nowMs), new Date(untilMs), limit],
  })
  return rows.map(({ amount, ...row }) => ({ ...row, amountMinor: BigInt(amount) }))
}

/** Deletes processed notifications received before a time. @returns how many */
export async function deleteOldNotifications(
  em: EntityManager,
  beforeMs: number,
  limit: number,
): Promise<number> {
  const queries = queriesOf<typeof NotificationEntity>(em)
  const old = queries
    .selectFrom('bank_notification')
    .select('id')
    .where('receivedAt', '<', new Date(beforeMs))
    .where('state', '=', 'PROCESSED')
    .orderBy('receivedAt')
    .limit(limit)
  const { numDeletedRows } = await queries
    .deleteFrom('bank_notification')
    .where('id', 'in', old)
    .executeTakeFirstOrThrow()
  return Number(numDeletedRows)
}

/**
 * Stores a notification as pending, and resolves after the commit.
 *
 * @returns the notification that is stored for this body; a new notification has no tries
 */
export type StoreNotification = (row: NewNotification) => Promise<StoredNotification>

type StoreCall = Call<NewNotification, StoredNotification>

/** A body has up to 64 KiB, and is stored encrypted: at most eight megabytes a statement. */
const ITEMS_MAX = 64

/**
 * Creates a function that stores notifications in batches: notifications that arrive while a batch is being written share
 * the next statement and its commit. A notification that the database refuses fails alone.
 */
export function createStoreNotification(
  pool: Pool,
  observeBatches?: ObserveBatches,
): StoreNotification {
  return createIsolatingBatcher({
    run: (calls: readonly StoreCall[]) => storeBatch(pool, calls),
    itemsMax: ITEMS_MAX,
    observers: observeBatches && [observeBatches('notifications')],
  })
}

async function storeBatch(pool: Pool, calls: readonly StoreCall[]): Promise<void> {
  const inserted = await insertNotifications(
    pool,
    calls.map(({ item }) => item),
  )
  const repeats: StoreCall[] = []
  for (const call of calls) {
    if (inserted.has(call.item.id)) call.result = toNew(call.item)
    else repeats.push(call)
  }
  if (repeats.length === 0) return
  const found = await findNotifications(
    pool,
    repeats.map(({ item }) => item),
  )
  // Only retention can have deleted the notification between the two statements.
  for (const [index, call] of repeats.entries()) call.result = found[index] ?? toNew(call.item)
}

function toNew({ id }: NewNotification): StoredNotification {
  return { id, state: 'PENDING', outcome: 'RETRY', tries: 0 }
}

/** Stores the result of processing a notification, unless it is already processed. */
export type FinishProcessing = (id: string, processed: Processed) => Promise<void>

interface Item {
  readonly id: string
  readonly processed: Processed
}

/**
 * Creates a function that stores results in batches.
 *
 * @param relaxedPool commits without waiting for the disk: a notification whose result is lost is still pending, and
 * processing it again is safe
 */
export function createFinishProcessing(
  relaxedPool: Pool,
  observeBatches?: ObserveBatches,
): FinishProcessing {
  const finish = createIsolatingBatcher<Item, true>({
    run: async (calls) => {
      await finishNotifications(relaxedPool, merge(calls.map(({ item }) => item)))
      for (const call of calls) call.result = true
    },
    batchesMax: 1,
    observers: observeBatches && [observeBatches('notification_results')],
  })
  return async (id, processed) => void (await finish({ id, processed }))
}

/** Merges several results of one notification into the result of storing them one by one. */
function merge(items: readonly Item[]): readonly Finished[] {
  const byId = new Map<string, Finished>()
  for (const { id, processed } of items) {
    const earlier = byId.get(id)
    if (earlier === undefined) byId.set(id, { ...processed, id, tries: 1 })
    else if (!isFinal(earlier)) byId.set(id, { ...processed, id, tries: earlier.tries + 1 })
  }
  return [...byId.values()]
}

function isFinal({ state, outcome }: Processed): boolean {
  return state === 'PROCESSED' && outcome !== 'UNCONFIRMED'
}
