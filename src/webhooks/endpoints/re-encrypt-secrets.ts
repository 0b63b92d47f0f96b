import type { Pool } from 'pg'
import { countByKey, type EncryptedRows, estimateRows } from '../../crypto/encrypted-rows.ts'
import type { Encrypter } from '../../crypto/encryption.ts'
import { byteaArray, textArray } from '../../postgres/binary-arrays.ts'
import { decryptSecret, encryptSecret } from '../sender/sign.ts'

interface EncryptedSecret {
  endpoint_id: string
  number: number
  secret_encrypted: Buffer
}

/** The signing secrets of webhook endpoints. */
export function encryptedSecrets(pool: Pool): EncryptedRows {
  return {
    name: 'webhook secrets',
    async reEncrypt(encrypter, after, limit) {
      const page = await readPage(pool, after, limit)
      const last = page.at(-1)
      const { head } = encrypter
      const rows = page.filter((row) => !row.secret_encrypted.subarray(0, head.length).equals(head))
      const results = rows.map((row) => reEncrypt(encrypter, row))
      const changes = rows.flatMap((row, index) => {
        const secretEncrypted = results[index]
        return secretEncrypted === undefined ? [] : [{ row, secretEncrypted }]
      })
      const unreadable = rows.filter((_, index) => results[index] === undefined).map(keyOf)
      const reEncrypted = changes.length === 0 ? 0 : await replace(pool, changes)
      return {
        scanned: page.length,
        reEncrypted,
        skipped: changes.length - reEncrypted,
        unreadable,
        next: last && keyOf(last),
      }
    },
    estimateRows: () => estimateRows(pool, 'webhook_secret'),
    countByKey: () =>
      countByKey(
        pool,
        `select encode(substr(secret_encrypted, 2, 4), 'hex') as key_id, count(*)
          from webhook_secret group by 1`,
      ),
    async matchesKeys(encrypter) {
      const result = await pool.query<EncryptedSecret>(
        'select endpoint_id, number, secret_encrypted from webhook_secret limit 1',
      )
      const row = result.rows[0]
      return row && reEncrypt(encrypter, row) !== undefined
    },
  }
}

/** "ep_…/2": identifies a secret, and the end of a page. */
function keyOf(row: Pick<EncryptedSecret, 'endpoint_id' | 'number'>): string {
  return `${row.endpoint_id}/${row.number}`
}

async function readPage(pool: Pool, after: string, limit: number): Promise<EncryptedSecret[]> {
  const [endpointId = '', number = '0'] = after.split('/')
  const result = await pool.query<EncryptedSecret>(
    `select endpoint_id, number, secret_encrypted from webhook_secret
      where (endpoint_id, number) > ($1, $2::int) order by endpoint_id, number limit $3`,
    [endpointId, number, limit],
  )
  return result.rows
}

function reEncrypt(encrypter: Encrypter, row: EncryptedSecret): Buffer | undefined {
  try {
    const key = { endpointId: row.endpoint_id, number: row.number }
    return encryptSecret(encrypter, key, decryptSecret(encrypter, key, row.secret_encrypted))
  } catch {
    return undefined
  }
}

/** Updates the rows that are unchanged and not locked. @returns how many rows were updated */
async function replace(
  pool: Pool,
  changes: readonly { readonly row: EncryptedSecret; readonly secretEncrypted: Buffer }[],
): Promise<number> {
  const result = await pool.query({
    name: 'webhook-secret-re-encrypt',
    text: `with input as (
        select * from unnest($1::text[], $2::int[], $3::bytea[], $4::bytea[])
          as i(endpoint_id, number, before, after)
      ), unchanged as (
        select s.endpoint_id, s.number
        from webhook_secret s join input i using (endpoint_id, number)
        where s.secret_encrypted = i.before for update of s skip locked
      )
      update webhook_secret s set secret_encrypted = i.after
      from input i join unchanged u using (endpoint_id, number)
      where s.endpoint_id = i.endpoint_id and s.number = i.number`,
    values: [
      textArray(changes.map(({ row }) => row.endpoint_id)),
      changes.map(({ row }) => row.number),
      byteaArray(changes.map(({ row }) => row.secret_encrypted)),
      byteaArray(changes.map(({ secretEncrypted }) => secretEncrypted)),
    ],
  })
  return result.rowCount ?? 0
}
