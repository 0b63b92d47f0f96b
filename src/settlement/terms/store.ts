import type { Pool, PoolClient } from 'pg'
import type { Schedule } from './schedule.ts'
import type { Terms } from './terms.ts'

export interface TermsRow {
  schedule: Schedule['schedule']
  working_days: number
  cut_off_minutes: number
  fee_flat_minor: string
  fee_basis_points: number
  fee_cap_minor: string
}

export const TERMS_COLUMNS =
  'schedule, working_days, cut_off_minutes, fee_flat_minor, fee_basis_points, fee_cap_minor'

/** The terms of a business; undefined if it uses the default terms. */
export async function findTerms(pool: Pool, businessId: string): Promise<Terms | undefined> {
  const result = await pool.query<TermsRow>({
    name: 'settlement-terms-find',
    text: `select ${TERMS_COLUMNS} from settlement_terms where business_id = $1`,
    values: [businessId],
  })
  return result.rows[0] && toTerms(result.rows[0])
}

export function toTerms(row: TermsRow): Terms {
  return {
    schedule: row.schedule,
    workingDays: row.working_days,
    cutOffMinutes: row.cut_off_minutes,
    feeFlatMinor: BigInt(row.fee_flat_minor),
    feeBasisPoints: row.fee_basis_points,
    feeCapMinor: BigInt(row.fee_cap_minor),
  }
}

export async function upsertTerms(
  client: PoolClient,
  businessId: string,
  terms: Terms,
  nowMs: number,
): Promise<void> {
  await client.query(
    `insert into settlement_terms (business_id, ${TERMS_COLUMNS}, updated_at)
      values ($1, $2, $3, $4, $5, $6, $7, $8)
      on conflict (business_id) do update set schedule = excluded.schedule,
        working_days = excluded.working_days, cut_off_minutes = excluded.cut_off_minutes,
        fee_flat_minor = excluded.fee_flat_minor, fee_basis_points = excluded.fee_basis_points,
        fee_cap_minor = excluded.fee_cap_minor, updated_at = excluded.updated_at`,
    [
      businessId,
      terms.schedule,
      terms.workingDays,
      terms.cutOffMinutes,
      terms.feeFlatMinor,
      terms.feeBasisPoints,
      terms.feeCapMinor,
      new Date(nowMs),
    ],
  )
}

/** Days as YYYY-MM-DD. A country has about fifteen holidays a year; the query is bounded anyway. */
export async function listAllHolidays(pool: Pool): Promise<string[]> {
  const result = await pool.query<{ day: string }>({
    name: 'holiday-all',
    text: 'select day::text as day from holiday order by day desc limit 10000',
  })
  return result.rows.map((row) => row.day)
}
