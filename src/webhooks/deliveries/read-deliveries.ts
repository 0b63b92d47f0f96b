import type { Pool } from 'pg'
import { boundedScan } from '../../postgres/bounded-scan.ts'
import { epochMs } from '../../postgres/epoch-ms.ts'

/** The state of a delivery: see the diagram of DeliveryStatus in delivery.proto. */
export type DeliveryState = 'PENDING' | 'DELIVERED' | 'FAILED'

/** A delivery as it is stored. Times in milliseconds since the Unix epoch. */
export interface StoredDelivery {
  readonly id: string
  readonly endpointId: string
  readonly position: bigint
  /** Empty, like the kind, once retention has deleted the event. */
  readonly eventId: string
  readonly eventKind: string
  readonly state: DeliveryState
  readonly attempts: number
  readonly createdAtMs: number
  readonly dueAtMs: number | undefined
  readonly completedAtMs: number | undefined
  readonly failure: string
  readonly latestAttempt: StoredAttempt | undefined
}

/** One request and its outcome. */
export interface StoredAttempt {
  readonly number: number
  readonly startedAtMs: number
  readonly latencyMs: number
  /** HTTP status; 0 without a response. */
  readonly status: number
  readonly responseBody: string
  readonly error: string
}

/** Which deliveries to read; one of the first two is set. */
export interface DeliveryFilter {
  readonly endpointId: string | undefined
  readonly eventId: string | undefined
  readonly state: DeliveryState | undefined
}

interface AttemptRow {
  number: number
  started_at_ms: number
  latency_ms: number
  status: number | null
  response_body: string
  error: string
}

interface Row {
  id: string
  endpoint_id: string
  position: string
  event_id: string | null
  kind: string | null
  state: DeliveryState
  attempts: number
  created_at_ms: number
  due_at_ms: number
  completed_at_ms: number | null
  failure: string | null
  latest: AttemptRow | null
}

const ATTEMPT = `json_build_object('number', a.number, 'started_at_ms', ${epochMs('a.started_at')},
  'latency_ms', a.latency_ms, 'status', a.status, 'response_body', a.response_body,
  'error', a.error)`

/**
 * The attempt in the row of a delivery. Deliveries of earlier releases have all their attempts in
 * webhook_attempt.
 */
const LATEST = `select d.attempts as number, d.started_at, d.latency_ms, d.status,
    d.response_body, d.error
  where d.started_at is not null`

const EARLIER = `select a.number, a.started_at, a.latency_ms, a.status, a.response_body, a.error
  from webhook_attempt a where a.delivery_id = d.id`

const COLUMNS = `d.id, d.endpoint_id, d.position, l.event_id, o.kind, d.state, d.attempts,
  ${epochMs('d.created_at')} as created_at_ms,
  ${epochMs('coalesce(d.leased_until, d.due_at)')} as due_at_ms,
  ${epochMs('d.completed_at')} as completed_at_ms, d.failure,
  case when d.attempts > 0 then (select ${ATTEMPT} from (${LATEST} union all ${EARLIER}) a
    order by a.number desc limit 1) end as latest`

const EVENT = `left join event_log l on l.position = d.position
  left join outbox o on o.seq = l.outbox_seq`

/** Position and endpoint of the last delivery of the previous page. */
interface DeliveryKey {
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
  after: DeliveryKey | undefined,
  limit: number,
): Promise<{ readonly deliveries: StoredDelivery[]; readonly readUpTo: bigint | undefined }> {
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
  const { rows } = await pool.query<Row & { read_up_to: string | null; id: string | null }>(
    `with ${scan}
      select edge.read_up_to, ${COLUMNS} from edge left join (page d ${EVENT}) on true
      order by d.position desc`,
    values,
  )
  const edge = rows[0]?.read_up_to ?? undefined
  return {
    deliveries: rows.flatMap((row) => (row.id === null ? [] : [toDelivery(row)])),
    readUpTo: edge === undefined ? undefined : BigInt(edge),
  }
}

/** Lists deliveries of an event, ordered by endpoint; a business has few endpoints. */
export async function listOfEvent(
  pool: Pool,
  eventId: string,
  filter: Pick<DeliveryFilter, 'endpointId' | 'state'>,
  after: DeliveryKey | undefined,
  limit: number,
): Promise<StoredDelivery[]> {
  const values: unknown[] = [eventId]
  const bind = (value: unknown) => `$${values.push(value)}`
  // Joins through the business's endpoints, because deliveries are indexed by endpoint.
  const from = `event_log l join outbox o on o.seq = l.outbox_seq
    join webhook_endpoint e on e.business_id = l.business_id
    join webhook_delivery d on d.endpoint_id = e.id and d.position = l.position`
  const where = ['l.event_id = $1']
  if (filter.endpointId !== undefined) where.push(`d.endpoint_id = ${bind(filter.endpointId)}`)
  if (filter.state !== undefined) where.push(`d.state = ${bind(filter.state)}`)
  if (after !== undefined) {
    where.push(`(d.position, d.endpoint_id) < (${bind(after.position)}, ${bind(after.endpointId)})`)
  }
  const result = await pool.query<Row>(
    `select ${COLUMNS} from ${from} where ${where.join(' and ')}
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

/** Reads a delivery and its latest attempts, oldest first, in one snapshot. */
export async function findWithAttempts(
  pool: Pool,
  id: string,
  attemptsMax: number,
): Promise<{ delivery: StoredDelivery; attempts: StoredAttempt[] } | undefined> {
  const result = await pool.query<Row & { log: AttemptRow[] }>({
    name: 'webhook-delivery-with-attempts',
    text: `select ${COLUMNS}, array(select ${ATTEMPT} from (${LATEST} union all ${EARLIER}) a
        order by a.number desc limit $2) as log
      from webhook_delivery d ${EVENT} where d.id = $1`,
    values: [id, attemptsMax],
  })
  const [row] = result.rows
  return row && { delivery: toDelivery(row), attempts: row.log.map(toAttempt).reverse() }
}

function toDelivery(row: Row): StoredDelivery {
  return {
    id: row.id,
    endpointId: row.endpoint_id,
    position: BigInt(row.position),
    eventId: row.event_id ?? '',
    eventKind: row.kind ?? '',
    state: row.state,
    attempts: row.attempts,
    createdAtMs: row.created_at_ms,
    dueAtMs: row.state === 'PENDING' ? row.due_at_ms : undefined,
    completedAtMs: row.completed_at_ms ?? undefined,
    failure: row.failure ?? '',
    latestAttempt: row.latest ? toAttempt(row.latest) : undefined,
  }
}

function toAttempt(row: AttemptRow): StoredAttempt {
  return {
    number: row.number,
    startedAtMs: row.started_at_ms,
    latencyMs: row.latency_ms,
    status: row.status ?? 0,
    responseBody: row.response_body,
    error: row.error,
  }
}
