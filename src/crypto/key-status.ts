import type { MikroORM } from '@mikro-orm/postgresql'
import { listMasterKeys } from './check-master-key.ts'
import type { EncryptedRows } from './encrypted-rows.ts'
import type { Encrypter } from './encryption.ts'
import { type KeyHolder, listInstances } from './key-heartbeat.ts'
import { MasterKeyEntity } from './master-key.entity.ts'

/** The status of one master key. */
export interface KeyStatus {
  /** 8 hexadecimal digits; '' for hashes of the first release, which name no key. */
  readonly keyId: string
  readonly current: boolean
  /** Whether this process knows the key. */
  readonly known: boolean
  /** The number of values under the key, by table. */
  readonly values: Readonly<Record<string, number>>
  /** Running instances that encrypt with it. */
  readonly instances: number
  /** Whether the key is no longer needed. */
  readonly removable: boolean
}

/** Returns every key that is known here, registered in the database, or used by a value. */
export async function readKeyStatus(
  orm: MikroORM,
  encrypter: Encrypter,
  tables: readonly EncryptedRows[],
): Promise<KeyStatus[]> {
  const registered = await listKeyIds(orm)
  const holders = await listInstances(orm)
  const counts = new Map<string, Record<string, number>>()
  for (const table of tables) {
    for (const [keyId, count] of await table.countByKey()) {
      counts.set(keyId, { ...counts.get(keyId), [table.name]: count })
    }
  }
  const keyIds = new Set([...encrypter.knownKeyIds, ...registered, ...counts.keys()])
  // A hash that names no key may be under any earlier key.
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

/** Returns the ids of the registered keys, each of which may encrypt a value in the database. */
export async function listKeyIds(orm: MikroORM): Promise<string[]> {
  return (await listMasterKeys(orm)).map((key) => key.id)
}

/** Returns the running instances that do not know the encrypter's current key yet. */
export async function listInstancesWithoutKey(
  orm: MikroORM,
  encrypter: Encrypter,
): Promise<KeyHolder[]> {
  const holders = await listInstances(orm)
  return holders.filter((holder) => !holder.knownKeyIds.includes(encrypter.keyId))
}

/** Unregisters keys that are no longer needed, so that an instance may start without them. */
export async function deleteRemovableKeys(
  orm: MikroORM,
  statuses: readonly KeyStatus[],
): Promise<void> {
  const removable = statuses.filter((status) => status.removable).map(({ keyId }) => keyId)
  await orm.em.fork().nativeDelete(MasterKeyEntity, { id: { $in: removable } })
}
