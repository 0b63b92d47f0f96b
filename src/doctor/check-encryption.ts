import type { Pool } from 'pg'
import { checkMasterKey, MasterKeyError } from '../encryption/check-master-key.ts'
import { listIgnorant, listKeyIds } from '../encryption/key-status.ts'
import type { SealedRows } from '../encryption/sealed-rows.ts'
import type { Sealer } from '../secrets.ts'
import { createFindings, type Finding } from './finding.ts'

/** Whether the master keys at hand are those of the database, and no more than it needs. */
export async function checkEncryption(
  pool: Pool,
  sealer: Sealer,
  tables: readonly SealedRows[],
): Promise<readonly Finding[]> {
  const findings = createFindings('Encryption')
  try {
    await checkMasterKey(pool, sealer, tables)
  } catch (error) {
    if (!(error instanceof MasterKeyError)) throw error
    findings.fail(error.message, 'without it, identity numbers and webhook secrets are lost')
    return findings.all
  }
  findings.ok(`the master key ${sealer.keyId} fits the database`)
  const registered = await listKeyIds(pool)
  if (registered.length > 1) {
    findings.warn(
      `some of the database may be encrypted with another key than ${sealer.keyId}`,
      'finish the rotation: inflow master-key rotate',
    )
  }
  const spare = sealer.knownKeyIds.filter((id) => id !== sealer.keyId && !registered.includes(id))
  if (registered.length > 0 && spare.length > 0) {
    findings.warn(
      `nothing needs the earlier key ${spare.join(', ')}`,
      'take it out of MASTER_KEY_PREVIOUS, and keep it with the backups of its time',
    )
  }
  const ignorant = await listIgnorant(pool, sealer)
  if (ignorant.length > 0) {
    findings.warn(
      `${ignorant.length} of the running instances lack the key ${sealer.keyId}`,
      'add it to their MASTER_KEY_PREVIOUS, and restart them',
    )
  }
  return findings.all
}
