import type { Pool } from 'pg'
import { byteaArray } from '../postgres/binary-arrays.ts'
import { inTransaction } from '../postgres/in-transaction.ts'
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
  /** The approximate number of rows, from the statistics of the database; 0: unknown. */
  estimateRows(): Promise<number>
  /** The number of values by key id; '' counts missing hashes, and hashes without a key id. */
  countByKey(): Promise<ReadonlyMap<string, number>>
  /** Whether the encrypter's keys decrypt a sample row; undefined if the table is empty. */
  matchesKeys(encrypter: Encrypter): Promise<boolean | undefined>
}

export interface ReEncryptedPage {
  readonly scanned: number
  readonly reEncrypted: number
  /** The number of rows that were locked or changed, and need another run. */
  readonly skipped: number
  /** The ids of rows that no known key decrypts, or whose content does not match its hash. */
  readonly unreadable: readonly string[]
  /** The cursor of the next page; undefined on the last page. */
  readonly next: string | undefined
}

/** A column whose values are encrypted, each for its own row. */
export interface EncryptedColumn {
  /** A name for operators: "bank notifications". */
  readonly name: string
  readonly table: string
  /** Null: the row has no value. */
  readonly column: string
  /** The columns of the primary key with their types, in the order of the index. */
  readonly key: Readonly<Record<string, 'text' | 'int'>>
  /** The encryption context of a row's value. @param key the values of the primary key */
  contextOf(...key: string[]): string
}

interface EncryptedValue {
  /** The values of the primary key. */
  readonly key: readonly string[]
  /** Null: the value is under the current key. */
  readonly before: Buffer | null
}

/** The rows of a table with one encrypted column. */
export function encryptedColumn(pool: Pool, encrypted: EncryptedColumn): EncryptedRows {
  const { name, table, column } = encrypted
  return {
    name,
    async reEncrypt(encrypter, after, limit) {
      const page = await readPage(pool, encrypted, encrypter.head, after, limit)
      const changes: Change[] = []
      const unreadable: string[] = []
      for (const { key, before } of page) {
        if (before === null) continue
        const value = reEncryptValue(encrypter, encrypted.contextOf(...key), before)
        if (value === undefined) unreadable.push(key.join('/'))
        else changes.push({ key, before, value })
      }
      const reEncrypted = changes.length === 0 ? 0 : await replace(pool, encrypted, changes)
      const skipped = changes.length - reEncrypted
      const next = page.at(-1)?.key.join('/')
      return { scanned: page.length, reEncrypted, skipped, unreadable, next }
    },
    estimateRows: () => estimateRows(pool, table),
    countByKey: () =>
      countByKey(
        pool,
        `select encode(substr(${column}, 2, 4), 'hex') as key_id, count(*) from ${table}
          where ${column} is not null group by 1`,
      ),
    async matchesKeys(encrypter) {
      const [row] = await readPage(pool, encrypted, Buffer.of(), '', 1)
      if (!row?.before) return undefined
      return reEncryptValue(encrypter, encrypted.contextOf(...row.key), row.before) !== undefined
    },
  }
}

/** @param head the first bytes of values under the current key; empty: all values are read */
async function readPage(
  pool: Pool,
  { table, column, key }: EncryptedColumn,
  head: Buffer,
  after: string,
  limit: number,
): Promise<EncryptedValue[]> {
  const names = Object.keys(key)
  const first = Object.values(key).map((type) => (type === 'int' ? '0' : ''))
  const from = names.map((name, index) => `$${index + 4}::${key[name]}`)
  const { rows } = await pool.query<EncryptedValue>(
    `select array[${names.map((name) => `${name}::text`)}] as key,
        case when $2 = 0 or substr(${column}, 1, $2) <> $1 then ${column} end as before
      from ${table} where ${column} is not null and (${names}) > (${from})
      order by ${names} limit $3`,
    [head, head.length, limit, ...(after === '' ? first : after.split('/'))],
  )
  return rows
}

/** @returns the value under the current key; undefined if no known key decrypts it */
function reEncryptValue(encrypter: Encrypter, context: string, before: Buffer): Buffer | undefined {
  try {
    return encrypter.encrypt(encrypter.decrypt(before, context), context)
  } catch {
    return undefined
  }
}

interface Change {
  readonly key: readonly string[]
  readonly before: Buffer
  readonly value: Buffer
}

/** Replaces values that have not changed since they were read, in rows that are not locked. @returns their number */
async function replace(
  pool: Pool,
  { table, column, key }: EncryptedColumn,
  changes: readonly Change[],
): Promise<number> {
  const names = Object.keys(key)
  const keys = names.map((name, index) => `$${index + 3}::${key[name]}[]`)
  const result = await pool.query(
    `with input as (
        select * from unnest($1::bytea[], $2::bytea[], ${keys}) as i(before, value, ${names})
      ), unchanged as (
        select ${names} from ${table} join input i using (${names})
        where ${column} = i.before for no key update of ${table} skip locked
      )
      update ${table} set ${column} = i.value from input i join unchanged using (${names})
      where (${names.map((name) => `${table}.${name}`)}) = (${names.map((name) => `i.${name}`)})`,
    [
      byteaArray(changes.map(({ before }) => before)),
      byteaArray(changes.map(({ value }) => value)),
      ...names.map((_, index) => changes.map((change) => change.key[index])),
    ],
  )
  return result.rowCount ?? 0
}

/** The approximate number of rows of a table; 0 until the database has analysed it. */
export async function estimateRows(pool: Pool, table: string): Promise<number> {
  const { rows } = await pool.query<{ estimate: number }>(
    'select greatest(reltuples, 0)::float8 as estimate from pg_class where oid = $1::regclass',
    [table],
  )
  return rows[0]?.estimate ?? 0
}

/** The time-out of a count, which scans every row of a table. */
const COUNT_TIMEOUT = '10min'

/** Runs a statement that returns rows of (key_id, count). It may take minutes. */
export function countByKey(pool: Pool, text: string): Promise<Map<string, number>> {
  return inTransaction(pool, async (client) => {
    await client.query('set transaction read only')
    await client.query(`set local statement_timeout = '${COUNT_TIMEOUT}'`)
    const { rows } = await client.query<{ key_id: string; count: string }>(text)
    const counts = new Map<string, number>()
    for (const row of rows) {
      counts.set(row.key_id, (counts.get(row.key_id) ?? 0) + Number(row.count))
    }
    return counts
  })
}
