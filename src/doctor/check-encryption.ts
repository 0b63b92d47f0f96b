import type { MikroORM } from '@mikro-orm/postgresql'
import { checkMasterKey, MasterKeyError } from '../crypto/check-master-key.ts'
import type { EncryptedRows } from '../crypto/encrypted-rows.ts'
import type { Encrypter } from '../crypto/encryption.ts'
import { listInstancesWithoutKey, listKeyIds } from '../crypto/key-status.ts'
import { createFindings, type Finding } from './finding.ts'

/** Checks that the configured master keys match the database, and that none is unneeded. */
export async function checkEncryption(
  orm: MikroORM,
  encrypter: Encrypter,
  tables: readonly EncryptedRows[],
): Promise<readonly Finding[]> {
  const findings = createFindings('Encryption')
  try {
    await checkMasterKey(orm, encrypter, tables)
  } catch (error) {
    if (!(error instanceof MasterKeyError)) throw error
    findings.fail(
      error.message,
      'without it, identity numbers and webhook secrets cannot be decrypted',
    )
    return findings.all
  }
  findings.ok(`the master key ${encrypter.keyId} matches the database`)
  const registered = await listKeyIds(orm)
  if (registered.length > 1) {
    findings.warn(
      `part of the database may be encrypted with a key other than ${encrypter.keyId}`,
      'finish the rotation: inflow master-key rotate',
    )
  }
  const unneeded = encrypter.knownKeyIds.filter(
    (id) => id !== encrypter.keyId && !registered.includes(id),
  )
  if (registered.length > 0 && unneeded.length > 0) {
    findings.warn(
      `the earlier key ${unneeded.join(', ')} is no longer needed`,
      'remove it from MASTER_KEY_PREVIOUS, and keep it with the backups of its time',
    )
  }
  const lacking = await listInstancesWithoutKey(orm, encrypter)
  if (lacking.length > 0) {
    findings.warn(
      `${lacking.length} running instances lack the key ${encrypter.keyId}`,
      'add it to their MASTER_KEY_PREVIOUS, and restart them',
    )
  }
  return findings.all
}
