import type { Pool } from 'pg'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import { findLatestDetails } from '../auth/audit/find-latest-details.ts'
import type { Actor } from '../auth/caller.ts'
import type { Config } from '../config/config.ts'
import { simulatedLiveBanks } from '../config/setting-risks.ts'
import { inTransaction } from '../postgres/in-transaction.ts'

const SETTING = 'ALLOW_SIMULATED_LIVE_ACCOUNTS'

/**
 * Appends to the audit log that live accounts are simulated, at which banks, and later that they no
 * longer are. A start that changes nothing adds nothing.
 *
 * @param system the service, as the audit log records it
 */
export async function auditSettings(pool: Pool, config: Config, system: Actor): Promise<void> {
  const banks = simulatedLiveBanks(config)
  const details = banks === undefined ? { value: 'off' } : { value: 'on', banks }
  await inTransaction(pool, async (client) => {
    // Instances that start together add one entry.
    await client.query('select pg_advisory_xact_lock(hashtextextended($1, 0))', [SETTING])
    const latest = await findLatestDetails(client, 'setting.change', SETTING)
    if (latest === JSON.stringify(details)) return
    if (latest === undefined && banks === undefined) return
    await appendAudit(client, system, { action: 'setting.change', targetId: SETTING, details })
  })
}
