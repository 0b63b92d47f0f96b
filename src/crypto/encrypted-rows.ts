import type { Pool } from 'pg'
import type { Encrypter } from './encryption.ts'

/** A table with columns that are encrypted or hashed under the master key. */
export interface EncryptedRows {
  /** A name for operators: "accounts". */
  readonly name: string
  /**
   * Scans the next rows, and re-encrypts those that are not under the encrypter's current key. Safe
   * to run concurrently with writers and with itself: rows that changed or are locked are skipped.
   *
   * @param after the cursor of the previous page; '' for the first page
   */
  reEncrypt(encrypter: Encrypter, after: string, limit: number): Promise<ReEncryptedPage>
  /** About how many rows there are, by the statistics of the database; 0: unknown. */
  estimateRows(): Promise<number>
  /** The number of values by key id; '' counts hashes that name no key or are missing. */
  countByKey(): Promise<ReadonlyMap<string, number>>
  /** Whether the encrypter's keys decrypt some row; undefined if there is no row. */
  matchesKeys(encrypter: Encrypter): Promise<boolean | undefined>
}

export interface ReEncryptedPage {
  readonly scanned: number
  readonly reEncrypted: number
  /** Rows that were locked or changed meanwhile, and need another run. */
  readonly skipped: number
  /** The ids of rows that no known key decrypts, or whose content does not match its hash. */
  readonly unreadable: readonly string[]
  /** The cursor of the next page; undefined on the last page. */
  readonly next: string | undefined
}

/** About how many rows a table has; 0 until the database has analysed it. */
export async function estimateRows(pool: Pool, table: string): Promise<number> {
  const { rows } = await pool.query<{ estimate: number }>(
    'select greatest(reltuples, 0)::float8 as estimate from pg_class where oid = $1::regclass',
    [table],
  )
  return rows[0]?.estimate ?? 0
}

/** A count scans every row of a table. */
const COUNT_TIMEOUT = '10min'

/** Runs a statement that returns rows of (key_id, count). It may take minutes. */
export async function countByKey(pool: Pool, text: string): Promise<Map<string, number>> {
  const client = await pool.connect()
  try {
    await client.query('begin read only')
    await client.query(`set local statement_timeout = '${COUNT_TIMEOUT}'`)
    const { rows } = await client.query<{ key_id: string; count: string }>(text)
    const counts = new Map<string, number>()
    for (const row of rows) {
      counts.set(row.key_id, (counts.get(row.key_id) ?? 0) + Number(row.count))
    }
    return counts
  } finally {
    await client.query('rollback').catch(() => undefined)
    client.release()
  }
}
