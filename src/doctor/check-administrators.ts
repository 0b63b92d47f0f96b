import type { Pool } from 'pg'
import { readAdministratorRisk } from '../auth/tokens/administrators.ts'
import type { Config } from '../config/config.ts'
import { createFindings, type Finding } from './finding.ts'

/** Checks that a caller can administer the service. In embedded mode, the data folder has a token. */
export async function checkAdministrators(pool: Pool, config: Config): Promise<readonly Finding[]> {
  const findings = createFindings('Settings')
  if (config.databaseUrl === undefined) return findings.all
  const risks = await readAdministratorRisk(pool, config)
  for (const { found, advice } of risks) findings.warn(found, advice)
  if (risks.length === 0) {
    findings.ok(
      config.adminToken === undefined
        ? 'ADMIN_TOKEN is not set: issued tokens, certificates or users administer the service'
        : 'the service can be administered',
    )
  }
  return findings.all
}
