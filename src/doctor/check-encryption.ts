import type { Pool } from 'pg'
import { checkMasterKey, MasterKeyError } from '../crypto/check-master-key.ts'
import type { EncryptedRows } from '../crypto/encrypted-rows.ts'
import type { Encrypter } from '../crypto/encryption.ts'
import { listIgnorant, listKeyIds } from '../crypto/key-status.ts'
import { createFindings, type Finding } from './finding.ts'

/** Whether the master keys at hand are those of the database, and no more than it needs. */
export async function checkEncryption(
  pool: Pool,
  encrypter: Encrypter,
  tables: readonly EncryptedRows[],
): Promise<readonly Finding[]> {
  const findings = createFindings('Encryption')
  try {
    await checkMasterKey(pool, encrypter, tables)
  } catch (error) {
    if (!(error instanceof MasterKeyError)) throw error
    findings.fail(error.message, 'without it, identity numbers and webhook secrets are lost')
    return findings.all
  }
  findings.ok(`the master key ${encrypter.keyId} fits the database`)
  const registered = await listKeyIds(pool)
  if (registered.length > 1) {
    findings.warn(
      `some of the database may be encrypted with another key than ${encrypter.keyId}`,
      'finish the rotation: inflow master-key rotate',
    )
  }
  const spare = encrypter.knownKeyIds.filter(
    (id) => id !== encrypter.keyId && !registered.includes(id),
  )
  if (registered.length > 0 && spare.length > 0) {
    findings.warn(
      `nothing needs the earlier key ${spare.join(', ')}`,
      'take it out of MASTER_KEY_PREVIOUS, and keep it with the backups of its time',
    )
  }
  const ignorant = await listIgnorant(pool, encrypter)
  if (ignorant.length > 0) {
    findings.warn(
      `${ignorant.length} of the running instances lack the key ${encrypter.keyId}`,
      'add it to their MASTER_KEY_PREVIOUS, and restart them',
    )
  }
  return findings.all
}
