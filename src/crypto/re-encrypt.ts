import { setTimeout as wait } from 'node:timers/promises'
import type { EncryptedRows } from './encrypted-rows.ts'
import type { Encrypter } from './encryption.ts'

/** Rows per statement, and so per commit. */
const PAGE_ROWS = 500

/** The most runs over a table. Each run skips rows that are locked, and the next tries them again. */
const RUNS_MAX = 10
const RERUN_DELAY_MS = 500

/** The most unreadable rows that the result names. */
const UNREADABLE_IDS_MAX = 10

export interface Progress {
  readonly table: string
  readonly scanned: number
  /** About how many rows the table has. */
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
 * Re-encrypts every value that is not under the encrypter's current key, a page at a time. It may be
 * interrupted at any moment and run again: rows that are done are skipped.
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
