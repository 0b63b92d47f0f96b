import type { Pool } from 'pg'
import { findLogged, joinOutbox, leftJoinEvent } from '../../events/log.sql.ts'
import { bigintArray } from '../../postgres/binary-arrays.ts'
import { boundedScan } from '../../postgres/bounded-scan.ts'
import { epochMs } from '../../postgres/epoch-ms.ts'
import type { DeliveryState, StoredAttempt, StoredDelivery } from './delivery.ts'

/** Which deliveries to read; one of the first two is set. */
export interface DeliveryFilter {
  readonly endpointId: string | undefined
  readonly eventId: string | undefined
  readonly state: DeliveryState | undefined
}

/** The columns of a delivery `d`, with its event as `l` and `o`. */
type Row = Omit<StoredDelivery, 'position'> & { readonly position: string }

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

const COLUMNS = `d.id, d.endpoint_id as "endpointId", d.position,
  coalesce(l.event_id, '') as "eventId", coalesce(o.kind, '') as "eventKind", d.state, d.attempts,
  ${epochMs('d.created_at')} as "createdAtMs",
  case when d.state = 'PENDING' then ${epochMs('coalesce(d.leased_until, d.due_at)')} end
    as "dueAtMs",
  ${epochMs('d.completed_at')} as "completedAtMs", coalesce(d.failure, '') as failure,
  case when d.attempts > 0 then (select ${ATTEMPT} from (${LATEST} union all ${EARLIER}) a
    order by a.number desc limit 1) end as "latestAttempt"`

const EVENT = leftJoinEvent('d.position')

/** Position and endpoint of the last delivery of the previous page. */
interface PageKey {
  readonly position: bigint
  readonly endpointId: string
}

/** The maximum number of deliveries of an endpoint that one page scans. */
const ROWS_MAX = 5_000

/**
 * Lists deliveries to an endpoint, newest event first.
 *
 * @returns the deliveries, and the position up to which it scanned if the scan reached its bound
 */
export async function listOfEndpoint(
  pool: Pool,
  endpointId: string,
  state: DeliveryState | undefined,
  after: PageKey | undefined,
  limit: number,
): Promise<{ readonly deliveries: StoredDelivery[]; readonly readUpTo: string | undefined }> {
  const values: unknown[] = [limit, endpointId]
  const before = after === undefined ? '' : ` and position < $${values.push(after.position)}`
  // A literal, so that the planner can use the partial index on this state.
  const failed = state === 'FAILED'
  const scan = boundedScan({
    columns: '*',
    from: 'webhook_delivery',
    key: 'position',
    order: 'desc',
    range: `endpoint_id = $2${before}${failed ? ` and state = 'FAILED'` : ''}`,
    filter: state === undefined || failed ? 'true' : `state = '${state}'`,
    limit: '$1',
    rowsMax: ROWS_MAX,
  })
  type Scanned = { readUpTo: string | null } & (Row | { id: null })
  const { rows } = await pool.query<Scanned>(
    `with ${scan}
      select edge.read_up_to as "readUpTo", ${COLUMNS} from edge left join (page d ${EVENT}) on true
      order by d.position desc`,
    values,
  )
  const deliveries = rows.filter((row) => row.id !== null).map(toDelivery)
  return { deliveries, readUpTo: rows[0]?.readUpTo ?? undefined }
}

/** Lists deliveries of an event, ordered by endpoint; a business has few endpoints. */
export async function listOfEvent(
  pool: Pool,
  eventId: string,
  filter: Pick<DeliveryFilter, 'endpointId' | 'state'>,
  after: PageKey | undefined,
  limit: number,
): Promise<StoredDelivery[]> {
  const values: unknown[] = [eventId]
  const bind = (value: unknown) => `$${values.push(value)}`
  // Joins through the business's endpoints, because deliveries are indexed by endpoint.
  const from = `logged l ${joinOutbox('l.outbox_seq')}
    join webhook_endpoint e on e.business_id = l.business_id
    join webhook_delivery d on d.endpoint_id = e.id and d.position = l.position`
  const where: string[] = []
  if (filter.endpointId !== undefined) where.push(`d.endpoint_id = ${bind(filter.endpointId)}`)
  if (filter.state !== undefined) where.push(`d.state = ${bind(filter.state)}`)
  if (after !== undefined) {
    where.push(`(d.position, d.endpoint_id) < (${bind(after.position)}, ${bind(after.endpointId)})`)
  }
  const result = await pool.query<Row>(
    `with ${findLogged('$1')}
      select ${COLUMNS} from ${from} where ${['true', ...where].join(' and ')}
      order by d.position desc, d.endpoint_id desc limit ${bind(limit)}`,
    values,
  )
  return result.rows.map(toDelivery)
}

export async function findDelivery(pool: Pool, id: string): Promise<StoredDelivery | undefined> {
  const result = await pool.query<Row>({
    name: 'webhook-delivery-find',
    text: `select ${COLUMNS} from webhook_delivery d ${EVENT} where d.id = $1`,
    values: [id],
  })
  const [row] = result.rows
  return row && toDelivery(row)
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
  const { rows } = await pool.query<Row & { log: StoredAttempt[]; url: string }>({
    name: 'webhook-delivery-at-positions',
    text: `select ${COLUMNS}, e.url, array(select ${ATTEMPT} from (${LATEST} union all ${EARLIER}) a
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
): Promise<{ delivery: StoredDelivery; attempts: StoredAttempt[] } | undefined> {
  const result = await pool.query<Row & { log: StoredAttempt[] }>({
    name: 'webhook-delivery-with-attempts',
    text: `select ${COLUMNS}, array(select ${ATTEMPT} from (${LATEST} union all ${EARLIER}) a
        order by a.number desc limit $2) as log
      from webhook_delivery d ${EVENT} where d.id = $1`,
    values: [id, attemptsMax],
  })
  const [row] = result.rows
  return row && { delivery: toDelivery(row), attempts: row.log.reverse() }
}

function toDelivery(row: Row): StoredDelivery {
  return { ...row, position: BigInt(row.position) }
}
