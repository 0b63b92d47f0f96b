import type { Pool } from 'pg'
import type { EncryptedRows } from './encrypted-rows.ts'
import type { Encrypter } from './encryption.ts'
import { GONE_AFTER_SECONDS } from './key-holder.ts'
import { deleteMasterKey, type KeyHolder, listHolders, listMasterKeys } from './store.ts'

/** What is to be known of one master key. */
export interface KeyStatus {
  /** 8 hexadecimal digits; '' for hashes of the first release, which name no key. */
  readonly keyId: string
  readonly current: boolean
  /** Whether the key is at hand here. */
  readonly known: boolean
  /** Values that were made with it, by table. */
  readonly values: Readonly<Record<string, number>>
  /** Running instances that encrypt with it. */
  readonly instances: number
  /** Whether nothing needs it any more. */
  readonly removable: boolean
}

/** Every key that is known here, that the database was told of, or that something is made with. */
export async function readKeyStatus(
  pool: Pool,
  encrypter: Encrypter,
  tables: readonly EncryptedRows[],
): Promise<KeyStatus[]> {
  const registered = await listKeyIds(pool)
  const holders = await listHolders(pool, GONE_AFTER_SECONDS)
  const counts = new Map<string, Record<string, number>>()
  for (const table of tables) {
    for (const [keyId, count] of await table.countByKey()) {
      counts.set(keyId, { ...counts.get(keyId), [table.name]: count })
    }
  }
  const keyIds = new Set([...encrypter.knownKeyIds, ...registered, ...counts.keys()])
  // A hash that names no key may be of any of the earlier ones.
  const unkeyed = counts.has('')
  return [...keyIds].map((keyId) => {
    const values = counts.get(keyId) ?? {}
    const instances = holders.filter((holder) => holder.currentKeyId === keyId).length
    const current = keyId === encrypter.keyId
    const unused = Object.keys(values).length === 0 && instances === 0 && !unkeyed
    return {
      keyId,
      current,
      known: encrypter.knownKeyIds.includes(keyId),
      values,
      instances,
      removable: keyId !== '' && !current && unused,
    }
  })
}

/** The keys that something in the database may be made with. */
export async function listKeyIds(pool: Pool): Promise<string[]> {
  return (await listMasterKeys(pool)).map((key) => key.id)
}

/** The running instances that do not know the encrypter's current key yet. */
export async function listIgnorant(pool: Pool, encrypter: Encrypter): Promise<KeyHolder[]> {
  const holders = await listHolders(pool, GONE_AFTER_SECONDS)
  return holders.filter((holder) => !holder.knownKeyIds.includes(encrypter.keyId))
}

/** Forgets keys that nothing needs any more, so that an instance may start without them. */
export async function forgetKeys(pool: Pool, statuses: readonly KeyStatus[]): Promise<void> {
  for (const { keyId, removable } of statuses) if (removable) await deleteMasterKey(pool, keyId)
}
