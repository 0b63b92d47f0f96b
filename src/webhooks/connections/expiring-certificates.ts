import type { Pool } from 'pg'
import { epochMs } from '../../postgres/epoch-ms.ts'

/** The most endpoints that are listed. */
const LISTED_MAX = 20

interface Expiring {
  readonly id: string
  readonly expiresAtMs: number
}

/**
 * The endpoints whose client certificates expire before a time, the first one first, and how many
 * endpoints have one.
 */
export async function listExpiringCertificates(
  pool: Pool,
  beforeMs: number,
): Promise<{ readonly endpoints: number; readonly expiring: readonly Expiring[] }> {
  const { rows } = await pool.query<Expiring & { endpoints: number }>(
    `select id, ${epochMs('certificate_expires_at')} as "expiresAtMs", count(*) over ()::int as endpoints
      from webhook_endpoint where certificate_expires_at is not null and deleted_at is null
      order by certificate_expires_at limit $1`,
    [LISTED_MAX],
  )
  const expiring = rows.filter(({ expiresAtMs }) => expiresAtMs < beforeMs)
  return { endpoints: rows[0]?.endpoints ?? 0, expiring }
}
