import type { Pool, PoolClient } from 'pg'
import { epochMs } from '../../postgres/epoch-ms.ts'

/** A caller's wish to settle. */
export interface SettlementRequest {
  readonly id: string
  /** Empty: all businesses that are due. */
  readonly businessId: string
  readonly live: boolean
  readonly forced: boolean
  readonly createdAtMs: number
  readonly isCompleted: boolean
}

/** Keeps a request under its id, if there is none. @returns whether it is new */
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

/** The request that is kept under an id. */
export async function readRequest(client: PoolClient, id: string): Promise<SettlementRequest> {
  const { rows } = await client.query<Row>(
    `select ${COLUMNS} from settlement_request where id = $1`,
    [id],
  )
  const row = rows[0]
  if (row === undefined) throw new Error('a request is kept for ever')
  return toRequest(row)
}

/**
 * Requests made before a time that are not completed.
 *
 * @param after the id of the last one of the part before
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

/** Everything that the request was for is settled: a repeat begins nothing. */
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
