import type { Pool } from 'pg'
import { findLogged, joinOutbox, leftJoinEvent } from '../../events/log.sql.ts'
import { bigintArray } from '../../postgres/binary-arrays.ts'
import { bindValues } from '../../postgres/bind-values.ts'
import { epochMs } from '../../postgres/epoch-ms.ts'
import type { DeliveryPlace, DeliveryState, StoredAttempt, StoredDelivery } from './delivery.ts'

/** Which deliveries to read; one of the first three is set. Times in epoch milliseconds. */
export interface DeliveryFilter {
  readonly endpointId: string | undefined
  readonly eventId: string | undefined
  readonly businessId?: string | undefined
  readonly live?: boolean | undefined
  readonly states: readonly DeliveryState[] | undefined
  /** When they were created. */
  readonly fromMs?: number | undefined
  readonly toMs?: number | undefined
}

/** The columns of a delivery `d`, with its event as `l` and `o`. */
export type DeliveryRow = Omit<StoredDelivery, 'position'> & { readonly position: string }

/** An attempt `a` as a `StoredAttempt`. */
const ATTEMPT = `json_build_object('number', a.number, 'startedAtMs', ${epochMs('a.started_at')},
  'latencyMs', a.latency_ms, 'status', coalesce(a.status, 0), 'responseBody', a.response_body,
  'error', a.error)`

/**
 * The attempt in the row of a delivery. Deliveries of earlier releases have all their attempts in
 * webhook_attempt.
 */
const LATEST = `select d.attempts as number, d.started_at, d.latency_ms, d.status,
    d.response_body, d.error
  where d.started_at is not null`

const EARLIER = `select a.number, a.started_at, a.latency_ms, a.status, a.response_body, a.error
  from webhook_attempt a where a.delivery_id = d.id and a.position = d.position`

export const DELIVERY_COLUMNS = `d.id, d.endpoint_id as "endpointId", d.position,
  coalesce(l.event_id, '') as "eventId", coalesce(o.kind, '') as "eventKind", d.state, d.attempts,
  ${epochMs('d.created_at')} as "createdAtMs",
  case when d.state = 'PENDING' then ${epochMs('coalesce(d.leased_until, d.due_at)')} end
    as "dueAtMs",
  ${epochMs('d.completed_at')} as "completedAtMs", coalesce(d.failure, '') as failure,
  case when d.attempts > 0 then (select ${ATTEMPT} from (${LATEST} union all ${EARLIER}) a
    order by a.number desc limit 1) end as "latestAttempt"`

const EVENT = leftJoinEvent('d.position')

/** Lists deliveries of an event, ordered by endpoint; a business has few endpoints. */
export async function listOfEvent(
  pool: Pool,
  eventId: string,
  filter: Omit<DeliveryFilter, 'eventId'>,
  after: DeliveryPlace | undefined,
  limit: number,
): Promise<StoredDelivery[]> {
  const { values, bind } = bindValues(eventId)
  // Joins through the business's endpoints, because deliveries are indexed by endpoint.
  const from = `logged l ${joinOutbox('l.outbox_seq')}
    join webhook_endpoint e on e.business_id = l.business_id
    join webhook_delivery d on d.endpoint_id = e.id and d.position = l.position`
  const where: string[] = []
  const { endpointId, businessId, live, states, fromMs, toMs } = filter
  if (endpointId !== undefined) where.push(`d.endpoint_id = ${bind(endpointId)}`)
  if (businessId !== undefined) where.push(`e.business_id = ${bind(businessId)}`)
  if (live !== undefined) where.push(`e.live = ${live}`)
  if (states !== undefined) where.push(`d.state = any (${bind(states)}::text[])`)
  if (fromMs !== undefined) where.push(`d.created_at >= ${bind(new Date(fromMs))}`)
  if (toMs !== undefined) where.push(`d.created_at < ${bind(new Date(toMs))}`)
  if (after !== undefined) {
    where.push(`(d.position, d.endpoint_id) < (${bind(after.position)}, ${bind(after.endpointId)})`)
  }
  const result = await pool.query<DeliveryRow>(
    `with ${findLogged('$1')}
      select ${DELIVERY_COLUMNS} from ${from} where ${['true', ...where].join(' and ')}
      order by d.position desc, d.endpoint_id desc limit ${bind(limit)}`,
    values,
  )
  return result.rows.map(toDelivery)
}

export async function findDelivery(pool: Pool, id: string): Promise<StoredDelivery | undefined> {
  const result = await pool.query<DeliveryRow>({
    name: 'webhook-delivery-find',
    text: `select ${DELIVERY_COLUMNS} from webhook_delivery d ${EVENT} where d.id = $1`,
    values: [id],
  })
  const [row] = result.rows
  return row && toDelivery(row)
}

/** A delivery with its latest attempts, oldest first. */
export interface FoundDelivery {
  readonly delivery: StoredDelivery
  readonly attempts: readonly StoredAttempt[]
  /** The sequence of the event before it that the endpoint is sent; 0 for the first. */
  readonly previousSequence: number
  /** The business and mode of its endpoint, whose row stays when the endpoint is deleted. */
  readonly businessId: string
  readonly live: boolean
}

/** A delivery, its latest attempts, oldest first, and the URL of its endpoint. */
export interface AttemptedDelivery {
  readonly delivery: StoredDelivery
  readonly attempts: readonly StoredAttempt[]
  readonly endpointUrl: string
}

/** Lists the deliveries of a business's events at some positions, in that order. */
export async function listAtPositions(
  pool: Pool,
  businessId: string,
  positions: readonly bigint[],
  limits: { readonly deliveries: number; readonly attempts: number },
): Promise<readonly AttemptedDelivery[]> {
  const { rows } = await pool.query<DeliveryRow & { log: StoredAttempt[]; url: string }>({
    name: 'webhook-delivery-at-positions',
    text: `select ${DELIVERY_COLUMNS}, e.url, array(select ${ATTEMPT} from (${LATEST} union all ${EARLIER}) a
        order by a.number desc limit $4) as log
      from unnest($2::int8[]) as p(position) cross join webhook_endpoint e
      cross join lateral (select * from webhook_delivery
        where endpoint_id = e.id and position = p.position offset 0) d ${EVENT}
      where e.business_id = $1 order by d.position, e.id limit $3`,
    values: [businessId, bigintArray(positions), limits.deliveries, limits.attempts],
  })
  return rows.map((row) => ({
    delivery: toDelivery(row),
    attempts: row.log.reverse(),
    endpointUrl: row.url,
  }))
}

/** Reads a delivery and its latest attempts, oldest first, in one snapshot. */
export async function findWithAttempts(
  pool: Pool,
  id: string,
  attemptsMax: number,
): Promise<FoundDelivery | undefined> {
  const result = await pool.query<
    DeliveryRow & {
      log: StoredAttempt[]
      previous_sequence: string
      business_id: string
      live: boolean
    }
  >({
    name: 'webhook-delivery-with-attempts',
    text: `select ${DELIVERY_COLUMNS}, array(select ${ATTEMPT} from (${LATEST} union all ${EARLIER}) a
        order by a.number desc limit $2) as log,
        d.previous_sequence, e.business_id, e.live
      from webhook_delivery d join webhook_endpoint e on e.id = d.endpoint_id ${EVENT} where d.id = $1`,
    values: [id, attemptsMax],
  })
  const [row] = result.rows
  if (row === undefined) return undefined
  const {
    log,
    previous_sequence: previousSequence,
    business_id: businessId,
    live,
    ...delivery
  } = row
  return {
    delivery: toDelivery(delivery),
    attempts: log.reverse(),
    previousSequence: Number(previousSequence),
    businessId,
    live,
  }
}

export function toDelivery(row: DeliveryRow): StoredDelivery {
  return { ...row, position: BigInt(row.position) }
}
