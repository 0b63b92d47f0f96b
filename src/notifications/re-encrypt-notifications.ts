import type { Pool } from 'pg'
import { countByKey, type EncryptedRows } from '../crypto/encrypted-rows.ts'
import type { Encrypter } from '../crypto/encryption.ts'
import { byteaArray, textArray } from '../postgres/binary-arrays.ts'
import { reEncryptNotification } from './raw-notification.ts'

interface EncryptedNotification {
  id: string
  raw_encrypted: Buffer
}

/** Banks' notifications as received. */
export function encryptedNotifications(pool: Pool): EncryptedRows {
  return {
    name: 'bank notifications',
    async reEncrypt(encrypter, after, limit) {
      const { rows, last, scanned } = await readStale(pool, encrypter, after, limit)
      const all = rows.map((row) => ({
        row,
        encrypted: reEncryptNotification(encrypter, row.id, row.raw_encrypted),
      }))
      const updates = all.flatMap(({ row, encrypted }) => (encrypted ? [{ row, encrypted }] : []))
      const unreadable = all.flatMap(({ row, encrypted }) => (encrypted ? [] : [row.id]))
      const reEncrypted = updates.length === 0 ? 0 : await replace(pool, updates)
      return { scanned, reEncrypted, skipped: updates.length - reEncrypted, unreadable, next: last }
    },
    countByKey: () =>
      countByKey(
        pool,
        `select encode(substr(raw_encrypted, 2, 4), 'hex') as key_id, count(*)
          from bank_notification group by 1`,
      ),
    async matchesKeys(encrypter) {
      const { rows } = await pool.query<EncryptedNotification>(
        'select id, raw_encrypted from bank_notification limit 1',
      )
      const [row] = rows
      return row && reEncryptNotification(encrypter, row.id, row.raw_encrypted) !== undefined
    },
  }
}

async function readStale(pool: Pool, encrypter: Encrypter, after: string, limit: number) {
  const result = await pool.query<{
    id: string | null
    raw_encrypted: Buffer
    scanned: number
    last: string | null
  }>(
    `with page as (
        select id, raw_encrypted from bank_notification where id > $1 order by id limit $2
      )
      select p.*, l.scanned, l.last
      from (select count(*)::int as scanned, max(id) as last from page) l
      left join page p on substr(p.raw_encrypted, 1, 5) <> $3`,
    [after, limit, encrypter.head],
  )
  const { last = null, scanned = 0 } = result.rows[0] ?? {}
  const rows = result.rows.flatMap(({ id, raw_encrypted }) =>
    id === null ? [] : [{ id, raw_encrypted }],
  )
  return { rows, last: last ?? undefined, scanned }
}

/** Updates the rows that did not change since they were read and are not locked; returns how many. */
async function replace(
  pool: Pool,
  updates: readonly { readonly row: EncryptedNotification; readonly encrypted: Buffer }[],
): Promise<number> {
  const result = await pool.query({
    name: 'bank-notification-re-encrypt',
    text: `with input as (
        select * from unnest($1::text[], $2::bytea[], $3::bytea[]) as i(id, before, encrypted)
      ), unchanged as (
        select n.id from bank_notification n join input i using (id)
        where n.raw_encrypted = i.before for update of n skip locked
      )
      update bank_notification n set raw_encrypted = i.encrypted
      from input i join unchanged u using (id) where n.id = i.id`,
    values: [
      textArray(updates.map(({ row }) => row.id)),
      byteaArray(updates.map(({ row }) => row.raw_encrypted)),
      byteaArray(updates.map(({ encrypted }) => encrypted)),
    ],
  })
  return result.rowCount ?? 0
}
