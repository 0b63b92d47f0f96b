import type { Pool, PoolClient } from 'pg'
import { newId } from '../core/ids.ts'
import { createLoop, type Loop } from '../core/loop.ts'
import { KINDS_ON_REQUEST } from '../events/message.ts'
import { bigintArray, textArray } from '../postgres/binary-arrays.ts'
import { inTransaction, KEEPING_PLANS } from '../postgres/in-transaction.ts'
import type { Runtime } from '../postgres/runtime.ts'
import type { UnclearClaims } from './deliveries/claim-deliveries.ts'
import { type ClaimRow, readClaims } from './deliveries/claim-deliveries.ts'
import type { Allotment } from './deliveries/concurrency-limiter.ts'
import type { Worker } from './deliveries/worker.ts'

interface DispatcherOptions {
  readonly leaseMs: number
  /** How long a disabled endpoint still gets deliveries, which are paused. */
  readonly pausedMaxMs: number
  readonly unclear: UnclearClaims
  /** Sends the deliveries that are claimed immediately. */
  readonly worker: Pick<Worker, 'allot' | 'enqueue'>
  /** Called when the dispatcher has created due deliveries that are not claimed. */
  readonly onDue: () => void
}

const EVENTS_MAX = 1_000

/** "dlv_" and ten characters of time; the statement adds the random characters. */
const ID_PREFIX_LENGTH = 14

const IDLE_MS = 1_000

/** The last delivery of an endpoint is first searched among this many events before the last event dispatched here. */
const RECENT_EVENTS = 10_000n

/** Creates deliveries from the events of the log. An advisory lock lets one instance at a time do it. */
export function createDispatcher(runtime: Runtime, options: DispatcherOptions): Loop {
  const { clock, log, tracing } = runtime
  const { relaxedPool } = runtime.database
  const { leaseMs, pausedMaxMs, worker, onDue, unclear } = options
  let recentFrom = 0n
  return createLoop({
    name: 'webhook dispatcher',
    log,
    async turn() {
      const nowMs = clock.now()
      const span = tracing?.start('dispatch events')
      const idPrefix = newId('dlv', nowMs).slice(0, ID_PREFIX_LENGTH)
      const allotments = worker.allot()
      const endpointIds = allotments.map(({ endpointId }) => endpointId)
      const leasedUntilMs = nowMs + leaseMs
      const { dispatched, claims } = await unclear.watch(
        { endpointIds, leasedUntilMs },
        async () => {
          const dispatched = await dispatchEvents(relaxedPool, {
            idPrefix,
            nowMs,
            eventsMax: EVENTS_MAX,
            allotments,
            leaseMs,
            recentFrom,
            pausedBeforeMs: nowMs - pausedMaxMs,
          })
          return { dispatched, ...(await readClaims(relaxedPool, dispatched.claimed)) }
        },
      )
      if (dispatched.position !== undefined) recentFrom = dispatched.position - RECENT_EVENTS
      const due = dispatched.deliveries - claims.length
      if (claims.length > 0) {
        const endpoints = dispatched.claimed.map((row) => {
          return { id: row.endpoint_id, concurrency: row.concurrency, rateLimit: row.rate_limit }
        })
        await worker.enqueue(claims, endpoints)
      }
      if (due > 0) onDue()
      const { events, deliveries } = dispatched
      if (events > 0) {
        span?.set({ 'inflow.events': events, 'inflow.deliveries': deliveries })
        span?.end()
      }
      return events === EVENTS_MAX ? 0 : IDLE_MS
    },
  })
}

interface DispatchOptions {
  /** The start of the new deliveries' ids: "dlv_" and the time. */
  readonly idPrefix: string
  readonly nowMs: number
  readonly eventsMax: number
  /** How many new deliveries of which endpoints are claimed immediately. */
  readonly allotments: readonly Allotment[]
  readonly leaseMs: number
  /**
   * A position a little before the next events: where to look for the last delivery of an endpoint
   * first. Any position is correct; a position near the end opens few partitions.
   */
  readonly recentFrom: bigint
  /** An endpoint that was disabled before this time gets no deliveries. */
  readonly pausedBeforeMs: number
}

interface Dispatched {
  /** The position that deliveries now exist up to; undefined if there were no events. */
  readonly position: bigint | undefined
  readonly events: number
  readonly deliveries: number
  /** The deliveries claimed immediately. */
  readonly claimed: readonly ClaimRow[]
}

/** An instance that stands still before its commit holds the lock of the dispatcher for no longer than this. */
const BEGIN = `${KEEPING_PLANS}; set local idle_in_transaction_session_timeout = '5s'`

type Row = { position: string | null; events: number; deliveries: number } & (
  | ClaimRow
  | { endpoint_id: null }
)

/**
 * Creates the deliveries of the next events and advances the dispatcher past them, in one statement. It does nothing
 * while another instance is dispatching. PostgreSQL keeps the plan, because planning takes ten times as long as the work.
 *
 * The lock only saves work. If another instance commits after the snapshot of this statement and before its lock, this
 * instance dispatches the same events again: their deliveries exist, so it creates none, and the highest position counts.
 *
 * Deliveries that this instance can send at once are created as claimed, which saves a second write
 * of the row. Any instance may claim the others.
 */
export async function dispatchEvents(pool: Pool, options: DispatchOptions): Promise<Dispatched> {
  const { nowMs, allotments, eventsMax } = options
  const statement = {
    // `eventsMax` is in the text, because the kept plan depends on it.
    name: `webhook-dispatch-${eventsMax}`,
    text: `with lock as materialized (
        select pg_try_advisory_xact_lock(hashtextextended('webhook dispatcher', 0)) as held
      ), dispatcher as (
        select position from webhook_dispatcher where (select held from lock)
        order by position desc limit 1
      ), next as (
        select position, outbox_seq, business_id, live, business_sequence from event_log
        where position > (select position from dispatcher) order by position limit ${eventsMax}
      ), matched as (
        select e.id as endpoint_id, n.position, n.business_sequence as sequence,
          lag(n.business_sequence) over (partition by e.id order by n.position) as previous,
          coalesce(e.disabled_at is null and not e.ordered
          and row_number() over (partition by e.id order by n.position) <= a.share, false
        ) as claimed
        from next n
        cross join lateral (select * from outbox where seq = n.outbox_seq offset 0) o
        -- "offset 0" keeps the planner on the index, however many events it expects.
        cross join lateral (select id, kinds, after_position, disabled_at, ordered from webhook_endpoint
          where business_id = n.business_id and live = n.live and deleted_at is null
            and (disabled_at is null or disabled_at >= $6) offset 0) e
        left join unnest($3::text[], $4::int8[]) as a(endpoint_id, share) on a.endpoint_id = e.id
        where e.after_position < n.position
          and case
            -- A test event goes to its endpoint only; an event about an endpoint to all others.
            when o.kind = 'ENDPOINT_TEST' then o.subject_id = e.id
            when o.subject_id = e.id then false
            when e.kinds = '{}' then o.kind <> all ($8::text[])
            else o.kind = any(e.kinds) end
      ), created as (
        insert into webhook_delivery (id, endpoint_id, position, sequence, previous_sequence, state,
          attempts, due_at, claims, leased_until, created_at)
        select $1 || substr(replace(gen_random_uuid()::text, '-', ''), 17), endpoint_id, position,
          sequence, coalesce(previous,
            -- That of the last event before these that the endpoint was sent; 0 if none.
            (select d.sequence from webhook_delivery d
              where d.endpoint_id = m.endpoint_id and d.position >= $7 and d.position < m.position
              order by d.position desc limit 1),
            last_delivery_sequence(m.endpoint_id, $7)),
          'PENDING', 0, $2, claimed::int,
          case when claimed then $5::timestamptz end, $2
        from matched m
        on conflict (endpoint_id, position) do nothing
        returning id, endpoint_id, position, previous_sequence, claims
      ), advanced as (
        insert into webhook_dispatcher (position)
        select max(position) from next having count(*) > 0
        on conflict do nothing
      ), grouped as (
        select endpoint_id, json_agg(json_build_array(id, 0, claims, position::text, previous_sequence)
          order by position) as claimed from created where claims > 0 group by endpoint_id
      )
      select c.*, g.*, e.url, e.concurrency, e.connection_version, e.rate_limit, e.ordered, e.profile,
        e.legacy_signature, e.event_name, e.payer_as_array,
        array(select int4send(case when s.is_next then -s.number else s.number end) || s.secret_encrypted
          from webhook_secret s
          where s.endpoint_id = g.endpoint_id and (s.expires_at is null or s.expires_at > $2)
          order by s.number desc) as secrets
      from (select (select max(position) from next) as position,
          (select count(*)::int from next) as events, (select count(*)::int from created) as deliveries) c
      left join grouped g on true left join webhook_endpoint e on e.id = g.endpoint_id`,
    values: [
      options.idPrefix,
      new Date(nowMs),
      textArray(allotments.map((allotment) => allotment.endpointId)),
      bigintArray(allotments.map((allotment) => BigInt(allotment.share))),
      new Date(nowMs + options.leaseMs),
      new Date(options.pausedBeforeMs),
      options.recentFrom,
      KINDS_ON_REQUEST,
    ],
  }
  const run = (client: PoolClient) => client.query<Row>(statement)
  const { rows } = await inTransaction(pool, run, BEGIN)
  const { position, events = 0, deliveries = 0 } = rows[0] ?? {}
  const claimed = rows.filter((row) => row.endpoint_id !== null)
  return { position: position ? BigInt(position) : undefined, events, deliveries, claimed }
}
