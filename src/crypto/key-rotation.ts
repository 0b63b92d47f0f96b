import { setTimeout as wait } from 'node:timers/promises'
import type { MikroORM } from '@mikro-orm/postgresql'
import { listMasterKeys } from './check-master-key.ts'
import type { EncryptedRows } from './encrypted-rows.ts'
import type { Encrypter } from './encryption.ts'
import { type KeyHolder, listInstances } from './key-heartbeat.ts'
import { MasterKeyEntity } from './master-key.entity.ts'

/** The rows of a statement, and so of a commit. */
const PAGE_ROWS = 500

/** The most runs over a table. Each run skips locked rows, and the next run tries them again. */
const RUNS_MAX = 10
const RERUN_DELAY_MS = 500

/** The most unreadable rows that the result names. */
const UNREADABLE_IDS_MAX = 10

interface Progress {
  readonly table: string
  readonly scanned: number
  /** The approximate number of rows of the table. */
  readonly rows: number
  readonly reEncrypted: number
}

export interface ReEncryptionResult {
  readonly reEncrypted: number
  readonly unreadable: number
  /** The ids of the first unreadable rows. */
  readonly unreadableIds: readonly string[]
}

/**
 * Re-encrypts every value that is not under the encrypter's current key, a page at a time. It can be
 * interrupted at any time and run again: re-encrypted rows are skipped.
 *
 * @param onProgress called after each page
 */
export async function reEncrypt(
  tables: readonly EncryptedRows[],
  encrypter: Encrypter,
  onProgress: (progress: Progress) => void,
): Promise<ReEncryptionResult> {
  let reEncrypted = 0
  const unreadable = new Set<string>()
  for (const table of tables) {
    for (let run = 1; run <= RUNS_MAX; run++) {
      const done = await runTable(table, encrypter, onProgress, unreadable)
      reEncrypted += done.reEncrypted
      if (done.skipped === 0) break
      await wait(RERUN_DELAY_MS)
    }
  }
  const unreadableIds = [...unreadable].slice(0, UNREADABLE_IDS_MAX)
  return { reEncrypted, unreadable: unreadable.size, unreadableIds }
}

async function runTable(
  table: EncryptedRows,
  encrypter: Encrypter,
  onProgress: (progress: Progress) => void,
  unreadable: Set<string>,
): Promise<{ readonly reEncrypted: number; readonly skipped: number }> {
  const sum = { scanned: 0, reEncrypted: 0, skipped: 0 }
  const rows = await table.estimateRows()
  let after: string | undefined = ''
  while (after !== undefined) {
    const page = await table.reEncrypt(encrypter, after, PAGE_ROWS)
    sum.scanned += page.scanned
    sum.reEncrypted += page.reEncrypted
    sum.skipped += page.skipped
    for (const id of page.unreadable) unreadable.add(id)
    const { scanned, reEncrypted } = sum
    onProgress({ table: table.name, scanned, rows, reEncrypted })
    after = page.next
  }
  return sum
}

/** The status of one master key. */
export interface KeyStatus {
  /** 8 hexadecimal digits; '' for hashes of the first release, which name no key. */
  readonly keyId: string
  readonly current: boolean
  /** Whether this process knows the key. */
  readonly known: boolean
  /** The number of values under the key, by table. */
  readonly values: Readonly<Record<string, number>>
  /** The number of running instances that encrypt with the key. */
  readonly instances: number
  /** Whether the key is no longer needed. */
  readonly removable: boolean
}

/** Returns every key that is known to this process, registered in the database, or used by a value. */
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
  // A hash without a key id may be under any earlier key.
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

/** Unregisters keys that are no longer needed, so that instances can start without them. */
export async function deleteRemovableKeys(
  orm: MikroORM,
  statuses: readonly KeyStatus[],
): Promise<void> {
  const removable = statuses.filter((status) => status.removable).map(({ keyId }) => keyId)
  await orm.em.fork().nativeDelete(MasterKeyEntity, { id: { $in: removable } })
}
