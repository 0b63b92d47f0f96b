import type { Pool } from 'pg'
import type { Encrypter } from './encryption.ts'

/** The rows of a table that hold what was made under the master key. */
export interface EncryptedRows {
  /** For people: "accounts". */
  readonly name: string
  /**
   * Looks at the next rows, and makes anew what is not of the encrypter's current key. Safe beside
   * writers and beside itself: what was changed in between, or is locked, is left for later.
   *
   * @param after where the page before ended; '' at the beginning
   */
  reEncrypt(encrypter: Encrypter, after: string, limit: number): Promise<ReEncryptedPage>
  /** How many values there are of each key id; '' for hashes that are without one, or missing. */
  countByKey(): Promise<ReadonlyMap<string, number>>
  /** Whether the encrypter's keys made what some row holds; undefined without any row. */
  fits(encrypter: Encrypter): Promise<boolean | undefined>
}

export interface ReEncryptedPage {
  readonly looked: number
  readonly reEncrypted: number
  /** Rows that have to be looked at again. */
  readonly left: number
  /** The ids of rows that no known key opens, or that are not what they were. */
  readonly unreadable: readonly string[]
  /** Where to go on; undefined at the end. */
  readonly next: string | undefined
}

/** A count looks at every row of a table. */
const COUNT_TIMEOUT = '10min'

/** Runs a statement that gives rows of (key_id, count), which may take minutes. */
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
