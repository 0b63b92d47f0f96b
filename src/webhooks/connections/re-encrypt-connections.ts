import type { Pool } from 'pg'
import { countByKey, type EncryptedRows, estimateRows } from '../../crypto/encrypted-rows.ts'
import { byteaArray, textArray } from '../../postgres/binary-arrays.ts'
import { reEncryptConnection } from './connection.ts'

/** The row of an endpoint that has a connection. */
interface Row {
  readonly id: string
  readonly encrypted: Buffer
}

interface Update extends Row {
  readonly before: Buffer
}

/** The headers and credentials that webhook endpoints are sent. */
export function encryptedConnections(pool: Pool): EncryptedRows {
  return {
    name: 'webhook connections',
    async reEncrypt(encrypter, after, limit) {
      const page = await readPage(pool, after, limit)
      const { head } = encrypter
      const stale = page.filter(({ encrypted }) => !encrypted.subarray(0, head.length).equals(head))
      const updates: Update[] = []
      const unreadable: string[] = []
      for (const { id, encrypted: before } of stale) {
        const encrypted = reEncryptConnection(encrypter, id, before)
        if (encrypted === undefined) unreadable.push(id)
        else updates.push({ id, before, encrypted })
      }
      const reEncrypted = updates.length === 0 ? 0 : await replace(pool, updates)
      const skipped = updates.length - reEncrypted
      return { scanned: page.length, reEncrypted, skipped, unreadable, next: page.at(-1)?.id }
    },
    estimateRows: () => estimateRows(pool, 'webhook_endpoint'),
    countByKey: () =>
      countByKey(
        pool,
        `select encode(substr(connection_encrypted, 2, 4), 'hex') as key_id, count(*)
          from webhook_endpoint where connection_encrypted is not null group by 1`,
      ),
    async matchesKeys(encrypter) {
      const [row] = await readPage(pool, '', 1)
      return row && reEncryptConnection(encrypter, row.id, row.encrypted) !== undefined
    },
  }
}

async function readPage(pool: Pool, after: string, limit: number): Promise<Row[]> {
  const { rows } = await pool.query<Row>(
    `select id, connection_encrypted as encrypted from webhook_endpoint
      where id > $1 and connection_encrypted is not null order by id limit $2`,
    [after, limit],
  )
  return rows
}

/** Updates the rows that are unchanged and not locked. @returns how many rows were updated */
async function replace(pool: Pool, updates: readonly Update[]): Promise<number> {
  const result = await pool.query({
    name: 'webhook-connection-re-encrypt',
    text: `with input as (
        select * from unnest($1::text[], $2::bytea[], $3::bytea[]) as i(id, before, encrypted)
      ), unchanged as (
        select e.id from webhook_endpoint e join input i using (id)
        where e.connection_encrypted = i.before for no key update of e skip locked
      )
      update webhook_endpoint e set connection_encrypted = i.encrypted
      from input i join unchanged u using (id) where e.id = i.id`,
    values: [
      textArray(updates.map(({ id }) => id)),
      byteaArray(updates.map(({ before }) => before)),
      byteaArray(updates.map(({ encrypted }) => encrypted)),
    ],
  })
  return result.rowCount ?? 0
}
