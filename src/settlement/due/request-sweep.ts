import type { Queryable } from '../../postgres/in-transaction.ts'

/**
 * Restarts the sweep of the index, with the next run of the job: due times have changed, or events are
 * missing. The caller holds the exclusive lock of the index.
 */
export async function requestSweep(client: Queryable): Promise<void> {
  await client.query(
    `update settlement_sweep set next_at = '-infinity', after_business_id = '', after_live = false,
      is_expected = true where id = 1`,
  )
}
