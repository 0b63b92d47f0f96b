import type { Pool } from 'pg'
import type { BankCode } from '../banks/bank.ts'
import {
  type Call,
  createIsolatingBatcher,
  type ObserveBatches,
  runStatement,
} from '../postgres/batcher.ts'
import { textArray } from '../postgres/binary-arrays.ts'
import { isDeadlock } from '../postgres/is-retryable.ts'
import type { Runtime } from '../postgres/runtime.ts'

/** How a bank identifies a payment, and the session id that it reports. */
interface KeyedSession {
  readonly bank: BankCode
  readonly bankKey: string
  readonly sessionId: string
}

/**
 * Assigns the session id under which a payment of a bank is recorded: the first session id that any source reported for
 * it. Resolves after the commit.
 *
 * @returns undefined if another payment of the bank has this session id
 */
export type AssignSession = (payment: KeyedSession) => Promise<string | undefined>

type SessionCall = Call<KeyedSession, { readonly sessionId: string | undefined }>

/** Creates a function that assigns sessions in batches, as payments are recorded. */
export function createAssignSession(
  { database: { durablePool }, clock }: Runtime,
  observeBatches?: ObserveBatches,
): AssignSession {
  const assign = createIsolatingBatcher({
    run: (calls: readonly SessionCall[]) => assignBatch(durablePool, calls, clock.now()),
    observers: observeBatches && [observeBatches('payment_sessions')],
  })
  return async ({ bank, bankKey, sessionId }) =>
    (await assign({ bank, bankKey, sessionId })).sessionId
}

async function assignBatch(
  pool: Pool,
  calls: readonly SessionCall[],
  nowMs: number,
): Promise<void> {
  const items = calls.map(({ item }) => item)
  const assigned = await assignSessions(pool, items, nowMs).catch((error: unknown) => {
    // Two batches have claimed sessions of the same payments in opposite orders. The error has no code, so the batch is
    // halved and repeated; a call alone cannot deadlock.
    if (isDeadlock(error)) throw new Error('a deadlock over sessions', { cause: error })
    throw error
  })
  const rest: SessionCall[] = []
  for (const [index, call] of calls.entries()) {
    const sessionId = assigned[index] ?? undefined
    if (sessionId === undefined) rest.push(call)
    else call.result = { sessionId }
  }
  if (rest.length === 0) return
  // The session was assigned by a transaction that was not visible to the statement, or it was not assigned.
  const found = await findSessions(
    pool,
    rest.map(({ item }) => item),
  )
  for (const [index, call] of rest.entries()) {
    call.result = { sessionId: found[index] ?? undefined }
  }
}

/** @returns the sessions of the payments, in order; null where the statement sees none */
async function assignSessions(
  pool: Pool,
  payments: readonly KeyedSession[],
  nowMs: number,
): Promise<readonly (string | null)[]> {
  const { rows } = await runStatement<{ session_id: string | null }>(pool, {
    name: 'payment-key-assign',
    text: `with input as (
        select * from unnest($1::text[], $2::text[], $3::text[])
          with ordinality as i(bank, bank_key, session_id, at)
      ), assigned as (
        insert into bank_payment_key (bank, bank_key, session_id, created_at)
        select bank, bank_key, session_id, $4 from input
        -- Every batch inserts in the same order, to prevent deadlocks; the first report wins.
        order by bank, bank_key, at
        on conflict do nothing returning bank, bank_key, session_id
      )
      -- Not a join, for which the planner may read the whole table while that is small.
      select coalesce(a.session_id, (select k.session_id from bank_payment_key k
        where k.bank = i.bank and k.bank_key = i.bank_key)) as session_id
      from input i left join assigned a on a.bank = i.bank and a.bank_key = i.bank_key
      order by i.at`,
    values: [
      ...keysOf(payments),
      textArray(payments.map((each) => each.sessionId)),
      new Date(nowMs),
    ],
  })
  return rows.map((row) => row.session_id)
}

/** @returns the sessions of the payments, in order; null for a payment that has none */
export async function findSessions(
  pool: Pool,
  payments: readonly Omit<KeyedSession, 'sessionId'>[],
): Promise<readonly (string | null)[]> {
  const { rows } = await pool.query<{ session_id: string | null }>({
    name: 'payment-key-find',
    text: `select (select k.session_id from bank_payment_key k
        where k.bank = i.bank and k.bank_key = i.bank_key) as session_id
      from unnest($1::text[], $2::text[]) with ordinality as i(bank, bank_key, at)
      order by i.at`,
    values: keysOf(payments),
  })
  return rows.map((row) => row.session_id)
}

function keysOf(payments: readonly Omit<KeyedSession, 'sessionId'>[]): [Buffer, Buffer] {
  return [textArray(payments.map(({ bank }) => bank)), textArray(payments.map((p) => p.bankKey))]
}

/** The session id under which a bank's payment is recorded; undefined if it was not reported yet. */
export async function findSession(
  pool: Pool,
  bank: BankCode,
  bankKey: string,
): Promise<string | undefined> {
  const [sessionId] = await findSessions(pool, [{ bank, bankKey }])
  return sessionId ?? undefined
}

/** Whether a payment of the bank has the session id, by the bank's key. */
export async function isSessionAssigned(
  pool: Pool,
  bank: BankCode,
  sessionId: string,
): Promise<boolean> {
  const { rowCount } = await pool.query(
    'select from bank_payment_key where session_id = $1 and bank = $2',
    [sessionId, bank],
  )
  return rowCount === 1
}
