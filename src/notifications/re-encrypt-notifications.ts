import { sql } from 'kysely'
import type { Pool } from 'pg'
import { countByKey, type EncryptedRows, estimateRows } from '../crypto/encrypted-rows.ts'
import { byteaArray, textArray } from '../postgres/binary-arrays.ts'
import type { Database } from '../postgres/orm.ts'
import { queriesOf } from '../postgres/queries-of.ts'
import type { NotificationEntity } from './notification.entity.ts'
import { reEncryptNotification } from './raw-notification.ts'

/** Banks' notifications as received. */
export function encryptedNotifications({ pool, orm }: Database): EncryptedRows {
  const notifications = () =>
    queriesOf<typeof NotificationEntity>(orm.em.fork()).selectFrom('bank_notification')
  return {
    name: 'bank notifications',
    async reEncrypt(encrypter, after, limit) {
      const stale = sql<Buffer | null>`
        case when substr(raw_encrypted, 1, 5) <> ${encrypter.head} then raw_encrypted end`
      const page = await notifications()
        .select(['id', stale.as('before')])
        .where('id', '>', after)
        .orderBy('id')
        .limit(limit)
        .execute()
      const updates: Update[] = []
      const unreadable: string[] = []
      for (const { id, before } of page) {
        if (before === null) continue
        const encrypted = reEncryptNotification(encrypter, id, before)
        if (encrypted === undefined) unreadable.push(id)
        else updates.push({ id, before, encrypted })
      }
      const reEncrypted = updates.length === 0 ? 0 : await replace(pool, updates)
      const skipped = updates.length - reEncrypted
      return { scanned: page.length, reEncrypted, skipped, unreadable, next: page.at(-1)?.id }
    },
    estimateRows: () => estimateRows(pool, 'bank_notification'),
    countByKey: () =>
      countByKey(
        pool,
        `select encode(substr(raw_encrypted, 2, 4), 'hex') as key_id, count(*)
          from bank_notification group by 1`,
      ),
    async matchesKeys(encrypter) {
      const row = await notifications().select(['id', 'rawEncrypted']).limit(1).executeTakeFirst()
      return row && reEncryptNotification(encrypter, row.id, row.rawEncrypted) !== undefined
    },
  }
}

interface Update {
  readonly id: string
  readonly before: Buffer
  readonly encrypted: Buffer
}

/** Updates the rows that did not change since they were read and are not locked; returns how many. */
async function replace(pool: Pool, updates: readonly Update[]): Promise<number> {
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
      textArray(updates.map(({ id }) => id)),
      byteaArray(updates.map(({ before }) => before)),
      byteaArray(updates.map(({ encrypted }) => encrypted)),
    ],
  })
  return result.rowCount ?? 0
}
