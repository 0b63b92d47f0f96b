import type { Pool } from 'pg'
import { bigintArray, textArray, timestampArray } from '../store/binary.ts'
import type { Claim } from './claim-deliveries.ts'
import type { Health } from './endpoint.ts'

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

interface HeldRow {
  delivery_id: string
  failing_since_ms: number | null
  warned_at_ms: number | null
}

/**
 * Writes attempts down where the claim still holds. The fence goes up with it, so that repeating
 * the statement, when it is not known whether it took effect, changes nothing.
 *
 * The first failure after a success makes an endpoint failing, and a success ends that.
 *
 * @returns for each how its endpoint did before, when it failed; undefined when its claim had ended
 */
export async function completeAttempts(
  pool: Pool,
  completions: readonly Completion[],
): Promise<(Health | undefined)[]> {
  const result = await pool.query<HeldRow>({
    name: 'webhook-complete',
    text: `with given as (
        select * from unnest($1::text[], $2::int8[], $3::text[], $4::timestamptz[],
          $5::timestamptz[], $6::int8[], $7::int8[], $8::text[], $9::text[])
          as g(id, fence, state, at, started_at, latency_ms, status, answer, error)
      ), held as (
        update webhook_delivery d set state = g.state, attempts = d.attempts + 1,
          fence = d.fence + 1, due_at = g.at,
          completed_at = case when g.state <> 'PENDING' then g.at end,
          failure = case when g.state = 'FAILED' then 'the last attempt failed' end
        from given g where d.id = g.id and d.fence = g.fence and d.state = 'PENDING'
        returning g.*, d.attempts, d.endpoint_id
      ), logged as (
        insert into webhook_attempt
          (delivery_id, number, started_at, latency_ms, status, answer, error)
        select id, attempts, started_at, latency_ms, nullif(status, 0), answer, error from held
      ), outcome as (
        select endpoint_id, bool_or(error = '') as well, min(started_at) as started_at
        from held group by endpoint_id
      ), changed as (
        -- In one order, so that two batches do not wait for each other in a circle.
        select e.id, o.well, o.started_at
        from outcome o join webhook_endpoint e on e.id = o.endpoint_id
        where o.well = (e.failing_since is not null) order by e.id for no key update of e
      ), noted as (
        update webhook_endpoint e set warned_at = null,
          failing_since = case when not c.well then c.started_at end
        from changed c where e.id = c.id
      )
      select h.id as delivery_id, (extract(epoch from e.failing_since) * 1000)::float8
          as failing_since_ms, (extract(epoch from e.warned_at) * 1000)::float8 as warned_at_ms
      from held h left join webhook_endpoint e on e.id = h.endpoint_id and h.error <> ''`,
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
  const held = new Map(result.rows.map((row) => [row.delivery_id, toHealth(row)]))
  return completions.map((completion) => held.get(completion.id))
}

function toHealth(row: HeldRow): Health {
  return {
    failingSinceMs: row.failing_since_ms ?? undefined,
    warnedAtMs: row.warned_at_ms ?? undefined,
  }
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

/** Gives up deliveries that were claimed and cannot be made. */
export async function giveUp(
  pool: Pool,
  claims: readonly Pick<Claim, 'id' | 'fence'>[],
  nowMs: number,
  failure: string,
): Promise<void> {
  await pool.query({
    name: 'webhook-give-up',
    text: `update webhook_delivery d
      set state = 'FAILED', completed_at = $3, failure = $4, fence = d.fence + 1
      from unnest($1::text[], $2::int8[]) as g(id, fence)
      where d.id = g.id and d.fence = g.fence and d.state = 'PENDING'`,
    values: [
      textArray(claims.map((claim) => claim.id)),
      bigintArray(claims.map((claim) => BigInt(claim.fence))),
      new Date(nowMs),
      failure,
    ],
  })
}
