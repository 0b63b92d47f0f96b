import { setTimeout as wait } from 'node:timers/promises'
import type { EncryptedRows } from './encrypted-rows.ts'
import type { Encrypter } from './encryption.ts'

/** Rows of one statement, and so of one commit. */
const PAGE_ROWS = 500

/** How often the whole table is walked: rows that others are busy with are left for the next walk. */
const WALKS_MAX = 10
const WALK_AGAIN_MS = 500

/** How many rows that cannot be read are named. */
const UNREADABLE_NAMED = 10

export interface Progress {
  readonly table: string
  readonly looked: number
  readonly reEncrypted: number
}

export interface ReEncryptionResult {
  readonly reEncrypted: number
  readonly unreadable: number
  /** The ids of the first of them. */
  readonly unreadableIds: readonly string[]
}

/**
 * Makes everything anew that is not of the encrypter's current key, a page at a time. It can be ended
 * at any moment and begun again: what is done is passed over.
 *
 * @param tell called after each page
 */
export async function reEncrypt(
  tables: readonly EncryptedRows[],
  encrypter: Encrypter,
  tell: (progress: Progress) => void,
): Promise<ReEncryptionResult> {
  let reEncrypted = 0
  const unreadable = new Set<string>()
  for (const table of tables) {
    for (let walk = 1; walk <= WALKS_MAX; walk++) {
      const done = await walkTable(table, encrypter, tell, unreadable)
      reEncrypted += done.reEncrypted
      if (done.left === 0) break
      await wait(WALK_AGAIN_MS)
    }
  }
  const unreadableIds = [...unreadable].slice(0, UNREADABLE_NAMED)
  return { reEncrypted, unreadable: unreadable.size, unreadableIds }
}

async function walkTable(
  table: EncryptedRows,
  encrypter: Encrypter,
  tell: (progress: Progress) => void,
  unreadable: Set<string>,
): Promise<{ readonly reEncrypted: number; readonly left: number }> {
  const sum = { looked: 0, reEncrypted: 0, left: 0 }
  let after: string | undefined = ''
  while (after !== undefined) {
    const page = await table.reEncrypt(encrypter, after, PAGE_ROWS)
    sum.looked += page.looked
    sum.reEncrypted += page.reEncrypted
    sum.left += page.left
    for (const id of page.unreadable) unreadable.add(id)
    tell({ table: table.name, looked: sum.looked, reEncrypted: sum.reEncrypted })
    after = page.next
  }
  return sum
}
