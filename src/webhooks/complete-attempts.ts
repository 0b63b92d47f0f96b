import type { Pool } from 'pg'
import { bigintArray, textArray, timestampArray } from '../store/binary.ts'
import type { Claim } from './claim-deliveries.ts'

/** An attempt that is over, and what becomes of its delivery. */
export interface Completion {
  readonly id: string
  readonly fence: number
  readonly state: 'PENDING' | 'DELIVERED' | 'FAILED'
  /** Of a pending one when it is due again, else when it was completed. */
  readonly atMs: number
  readonly startedAtMs: number
  readonly latencyMs: number
  readonly status: number | undefined
  readonly answer: string
  readonly error: string
}

/**
 * Writes attempts down where the claim still holds. The fence goes up with it, so that repeating
 * the statement, when it is not known whether it took effect, changes nothing.
 *
 * @returns for each whether its claim held
 */
export async function completeAttempts(
  pool: Pool,
  completions: readonly Completion[],
): Promise<boolean[]> {
  const result = await pool.query<{ delivery_id: string }>({
    name: 'webhook-complete',
    text: `with given as (
        select * from unnest($1::text[], $2::int8[], $3::text[], $4::timestamptz[],
          $5::timestamptz[], $6::int8[], $7::int8[], $8::text[], $9::text[])
          as g(id, fence, state, at, started_at, latency_ms, status, answer, error)
      ), held as (
        update webhook_delivery d set state = g.state, attempts = d.attempts + 1,
          fence = d.fence + 1, due_at = g.at,
          completed_at = case when g.state <> 'PENDING' then g.at end
        from given g where d.id = g.id and d.fence = g.fence and d.state = 'PENDING'
        returning g.*, d.attempts
      )
      insert into webhook_attempt
        (delivery_id, number, started_at, latency_ms, status, answer, error)
      select id, attempts, started_at, latency_ms, nullif(status, 0), answer, error from held
      returning delivery_id`,
    values: [
      textArray(completions.map((completion) => completion.id)),
      bigintArray(completions.map((completion) => BigInt(completion.fence))),
      textArray(completions.map((completion) => completion.state)),
      timestampArray(completions.map((completion) => completion.atMs)),
      timestampArray(completions.map((completion) => completion.startedAtMs)),
      bigintArray(completions.map((completion) => BigInt(completion.latencyMs))),
      bigintArray(completions.map((completion) => BigInt(completion.status ?? 0))),
      textArray(completions.map((completion) => completion.answer)),
      textArray(completions.map((completion) => completion.error)),
    ],
  })
  const held = new Set(result.rows.map((row) => row.delivery_id))
  return completions.map((completion) => held.has(completion.id))
}

/** Gives claims back: their deliveries are due at once, for whoever comes. */
export async function giveBack(
  pool: Pool,
  claims: readonly Pick<Claim, 'id' | 'fence'>[],
  nowMs: number,
): Promise<void> {
  await pool.query({
    name: 'webhook-give-back',
    text: `update webhook_delivery d set due_at = $3, fence = d.fence + 1
      from unnest($1::text[], $2::int8[]) as g(id, fence)
      where d.id = g.id and d.fence = g.fence and d.state = 'PENDING'`,
    values: [
      textArray(claims.map((claim) => claim.id)),
      bigintArray(claims.map((claim) => BigInt(claim.fence))),
      new Date(nowMs),
    ],
  })
}
