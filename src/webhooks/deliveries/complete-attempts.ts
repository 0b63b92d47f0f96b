import type { Pool } from 'pg'
import { integerArray, textArray, timestampArray } from '../../postgres/binary-arrays.ts'
import type { Health } from '../endpoints/endpoint.ts'
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

interface ReportedRow {
  delivery_id: string
  held: boolean
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
  // `any(array(…))` keeps the planner on the primary key, and so does not asking for the state: while
  // the claim holds, it is pending.
  const result = await pool.query<ReportedRow>({
    name: 'webhook-complete',
    text: `with given as (
        select * from unnest($1::text[], $2::int4[], $3::text[], $4::timestamptz[],
          $5::timestamptz[], $6::int4[], $7::int4[], $8::text[], $9::text[])
          as g(id, claim, state, at, started_at, latency_ms, status, answer, error)
      ), held as (
        update webhook_delivery d set state = g.state, attempts = d.attempts + 1,
          claims = d.claims + 1, leased_until = null,
          due_at = case when g.state = 'PENDING' then g.at else d.due_at end,
          completed_at = case when g.state <> 'PENDING' then g.at end,
          failure = case when g.state = 'FAILED' then 'the last attempt failed' end,
          started_at = g.started_at, latency_ms = g.latency_ms, status = nullif(g.status, 0),
          answer = g.answer, error = g.error
        from given g
        where d.id = any(array(select id from given)) and d.id = g.id and d.claims = g.claim
        returning d.id, d.attempts, d.endpoint_id, g.started_at, g.error
      ), logged as (
        -- The attempt before, as it still is in this statement's snapshot: nobody else writes to a
        -- delivery while its claim holds.
        insert into webhook_attempt
          (delivery_id, number, started_at, latency_ms, status, answer, error)
        select id, attempts, started_at, latency_ms, status, answer, error from webhook_delivery
        where id = any(array(select id from held where attempts > 1)) and started_at is not null
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
      -- Of what went well there is nothing to tell.
      select g.id as delivery_id, h.id is not null as held,
        (extract(epoch from e.failing_since) * 1000)::float8 as failing_since_ms,
        (extract(epoch from e.warned_at) * 1000)::float8 as warned_at_ms
      from given g left join held h on h.id = g.id
      left join webhook_endpoint e on e.id = h.endpoint_id
      where h.id is null or g.error <> ''`,
    values: [
      textArray(completions.map((completion) => completion.id)),
      integerArray(completions.map((completion) => completion.fence)),
      textArray(completions.map((completion) => completion.state)),
      timestampArray(completions.map((completion) => completion.atMs)),
      timestampArray(completions.map((completion) => completion.startedAtMs)),
      integerArray(completions.map((completion) => completion.latencyMs)),
      integerArray(completions.map((completion) => completion.status ?? 0)),
      textArray(completions.map((completion) => completion.answer)),
      textArray(completions.map((completion) => completion.error)),
    ],
  })
  const told = new Map(result.rows.map((row) => [row.delivery_id, toHealth(row)]))
  return completions.map(({ id }) => (told.has(id) ? told.get(id) : WELL))
}

const WELL: Health = { failingSinceMs: undefined, warnedAtMs: undefined }

function toHealth(row: ReportedRow): Health | undefined {
  if (!row.held) return undefined
  return {
    failingSinceMs: row.failing_since_ms ?? undefined,
    warnedAtMs: row.warned_at_ms ?? undefined,
  }
}

/** Gives claims back: their deliveries are due at once, for whoever comes. */
export async function giveBack(
  pool: Pool,
  claims: readonly Pick<Claim, 'id' | 'fence'>[],
): Promise<void> {
  await pool.query({
    name: 'webhook-give-back',
    text: `update webhook_delivery d set leased_until = null, claims = d.claims + 1
      from unnest($1::text[], $2::int4[]) as g(id, claim)
      where d.id = any($1) and d.id = g.id and d.claims = g.claim`,
    values: [
      textArray(claims.map((claim) => claim.id)),
      integerArray(claims.map((claim) => claim.fence)),
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
      set state = 'FAILED', completed_at = $3, failure = $4, leased_until = null, claims = d.claims + 1
      from unnest($1::text[], $2::int4[]) as g(id, claim)
      where d.id = any($1) and d.id = g.id and d.claims = g.claim`,
    values: [
      textArray(claims.map((claim) => claim.id)),
      integerArray(claims.map((claim) => claim.fence)),
      new Date(nowMs),
      failure,
    ],
  })
}
