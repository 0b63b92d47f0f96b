import type { Pool } from 'pg'
import { countByKey, type EncryptedRows } from '../crypto/encrypted-rows.ts'
import type { Encrypter } from '../crypto/encryption.ts'
import { byteaArray, textArray } from '../postgres/binary-arrays.ts'
import { reEncryptNotification } from './raw-notification.ts'

interface EncryptedNotification {
  id: string
  sealed: Buffer
}

/** Banks' notifications as they came. */
export function encryptedNotifications(pool: Pool): EncryptedRows {
  return {
    name: 'bank notifications',
    async reEncrypt(encrypter, after, limit) {
      const { rows, last, scanned } = await readStale(pool, encrypter, after, limit)
      const all = rows.map((row) => ({
        row,
        sealed: reEncryptNotification(encrypter, row.id, row.sealed),
      }))
      const remade = all.flatMap(({ row, sealed }) => (sealed ? [{ row, sealed }] : []))
      const unreadable = all.flatMap(({ row, sealed }) => (sealed ? [] : [row.id]))
      const reEncrypted = remade.length === 0 ? 0 : await replace(pool, remade)
      return { scanned, reEncrypted, skipped: remade.length - reEncrypted, unreadable, next: last }
    },
    countByKey: () =>
      countByKey(
        pool,
        `select encode(substr(sealed, 2, 4), 'hex') as key_id, count(*)
          from bank_notification group by 1`,
      ),
    async matchesKeys(encrypter) {
      const { rows } = await pool.query<EncryptedNotification>(
        'select id, sealed from bank_notification limit 1',
      )
      const [row] = rows
      return row && reEncryptNotification(encrypter, row.id, row.sealed) !== undefined
    },
  }
}

async function readStale(pool: Pool, encrypter: Encrypter, after: string, limit: number) {
  const result = await pool.query<{
    id: string | null
    sealed: Buffer
    scanned: number
    last: string | null
  }>(
    `with page as (
        select id, sealed from bank_notification where id > $1 order by id limit $2
      )
      select p.*, l.scanned, l.last
      from (select count(*)::int as scanned, max(id) as last from page) l
      left join page p on substr(p.sealed, 1, 5) <> $3`,
    [after, limit, encrypter.head],
  )
  const { last = null, scanned = 0 } = result.rows[0] ?? {}
  const rows = result.rows.flatMap(({ id, sealed }) => (id === null ? [] : [{ id, sealed }]))
  return { rows, last: last ?? undefined, scanned }
}

/** Replaces what is still as it was read, and not locked. @returns how many rows were replaced */
async function replace(
  pool: Pool,
  remade: readonly { readonly row: EncryptedNotification; readonly sealed: Buffer }[],
): Promise<number> {
  const result = await pool.query({
    name: 'bank-notification-reEncrypt',
    text: `with input as (
        select * from unnest($1::text[], $2::bytea[], $3::bytea[]) as i(id, before, sealed)
      ), unchanged as (
        select n.id from bank_notification n join input i using (id)
        where n.sealed = i.before for update of n skip locked
      )
      update bank_notification n set sealed = i.sealed
      from input i join unchanged u using (id) where n.id = i.id`,
    values: [
      textArray(remade.map(({ row }) => row.id)),
      byteaArray(remade.map(({ row }) => row.sealed)),
      byteaArray(remade.map(({ sealed }) => sealed)),
    ],
  })
  return result.rowCount ?? 0
}
