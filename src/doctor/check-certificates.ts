import type { Pool } from 'pg'
import { listExpiringCertificates } from '../webhooks/connections/client-certificate.ts'
import { createFindings, type Finding } from './finding.ts'

const DAY_MS = 86_400_000

/** How long before a certificate expires it is reported. */
const WARN_MS = 30 * DAY_MS

/** Checks that the client certificates of webhook endpoints do not expire soon. */
export async function checkCertificates(pool: Pool, nowMs: number): Promise<readonly Finding[]> {
  const findings = createFindings('Webhooks')
  const { endpoints, expiring } = await listExpiringCertificates(pool, nowMs + WARN_MS)
  if (endpoints > 0 && expiring.length === 0) {
    findings.ok(`no client certificate of ${endpoints} endpoints expires within 30 days`)
  }
  for (const { id, expiresAtMs } of expiring) {
    const day = new Date(expiresAtMs).toISOString().slice(0, 10)
    const advice = `inflow webhook update ${id} --certificate-file … --certificate-key-file …`
    const found = `the client certificate of the endpoint ${id}`
    if (expiresAtMs <= nowMs) findings.fail(`${found} expired on ${day}`, advice)
    else findings.warn(`${found} expires on ${day}`, advice)
  }
  return findings.all
}
