import type { Pool, PoolClient } from 'pg'
import { epochMs } from '../../postgres/epoch-ms.ts'

/** A caller's request to settle. */
export interface SettlementRequest {
  readonly id: string
  /** Empty: all businesses that are due. */
  readonly businessId: string
  readonly live: boolean
  readonly forced: boolean
  readonly createdAtMs: number
  readonly isCompleted: boolean
}

/** Stores a request unless its id is taken. @returns whether it was stored */
export async function insertRequest(
  client: PoolClient,
  request: Omit<SettlementRequest, 'isCompleted'>,
): Promise<boolean> {
  const result = await client.query(
    `insert into settlement_request (id, business_id, live, forced, created_at)
      values ($1, $2, $5, $3, $4) on conflict (id) do nothing`,
    [request.id, request.businessId, request.forced, new Date(request.createdAtMs), request.live],
  )
  return result.rowCount === 1
}

interface Row {
  id: string
  business_id: string
  live: boolean
  forced: boolean
  created_at_ms: number
  completed: boolean
}

const COLUMNS = `id, business_id, live, forced, ${epochMs('created_at')} as created_at_ms,
  completed_at is not null as completed`

/** The stored request of an id. */
export async function readRequest(client: PoolClient, id: string): Promise<SettlementRequest> {
  const { rows } = await client.query<Row>(
    `select ${COLUMNS} from settlement_request where id = $1`,
    [id],
  )
  const row = rows[0]
  if (row === undefined) throw new Error('a settlement request is never deleted')
  return toRequest(row)
}

/**
 * One page of the uncompleted requests made at or before a time, ordered by id.
 *
 * @param after the id of the last request of the previous page
 */
export async function listOpenRequests(
  pool: Pool,
  { beforeMs, after }: { readonly beforeMs: number; readonly after: string },
  limit: number,
): Promise<SettlementRequest[]> {
  const { rows } = await pool.query<Row>(
    `select ${COLUMNS} from settlement_request
      where completed_at is null and id > $1 and created_at <= $2 order by id limit $3`,
    [after, new Date(beforeMs), limit],
  )
  return rows.map(toRequest)
}

/** Marks a request as completed: a repeat starts no settlement. */
export async function completeRequest(pool: Pool, id: string, nowMs: number): Promise<void> {
  await pool.query(
    'update settlement_request set completed_at = $2 where id = $1 and completed_at is null',
    [id, new Date(nowMs)],
  )
}

function toRequest(row: Row): SettlementRequest {
  return {
    id: row.id,
    businessId: row.business_id,
    live: row.live,
    forced: row.forced,
    createdAtMs: row.created_at_ms,
    isCompleted: row.completed,
  }
}
