import type { Pool } from 'pg'
import { countByKey, type EncryptedRows } from '../../crypto/encrypted-rows.ts'
import type { Encrypter } from '../../crypto/encryption.ts'
import { byteaArray, textArray } from '../../postgres/binary-arrays.ts'
import { decryptSecret, encryptSecret } from './signing-secret.ts'

interface EncryptedSecret {
  endpoint_id: string
  number: number
  sealed: Buffer
}

/** The secrets that webhooks are signed with. */
export function encryptedSecrets(pool: Pool): EncryptedRows {
  return {
    name: 'webhook secrets',
    async reEncrypt(encrypter, after, limit) {
      const { rows, last, scanned } = await readStale(pool, encrypter, after, limit)
      const all = rows.map((row) => remake(encrypter, row))
      const remade = rows.flatMap((row, index) => {
        const sealed = all[index]
        return sealed === undefined ? [] : [{ row, sealed }]
      })
      const unreadable = rows.filter((_, index) => all[index] === undefined).map(markOf)
      const reEncrypted = remade.length === 0 ? 0 : await replace(pool, remade)
      return { scanned, reEncrypted, skipped: remade.length - reEncrypted, unreadable, next: last }
    },
    countByKey: () =>
      countByKey(
        pool,
        `select encode(substr(sealed, 2, 4), 'hex') as key_id, count(*)
          from webhook_secret group by 1`,
      ),
    async matchesKeys(encrypter) {
      const result = await pool.query<EncryptedSecret>(
        'select endpoint_id, number, sealed from webhook_secret limit 1',
      )
      const row = result.rows[0]
      return row && remake(encrypter, row) !== undefined
    },
  }
}

/** "ep_…/2": where a page ends, and what a secret is called. */
function markOf(row: Pick<EncryptedSecret, 'endpoint_id' | 'number'>): string {
  return `${row.endpoint_id}/${row.number}`
}

async function readStale(pool: Pool, encrypter: Encrypter, after: string, limit: number) {
  const [endpointId = '', number = '0'] = after.split('/')
  const result = await pool.query<EncryptedSecret & { scanned: number; last: string | null }>(
    `with page as (
        select endpoint_id, number, sealed from webhook_secret
        where (endpoint_id, number) > ($1, $2::int) order by endpoint_id, number limit $3
      )
      select p.*, l.scanned, l.last from (
        select count(*)::int as scanned, (select endpoint_id || '/' || number from page
          order by endpoint_id desc, number desc limit 1) as last from page
      ) l left join page p on substr(p.sealed, 1, 5) <> $4`,
    [endpointId, number, limit, encrypter.head],
  )
  const { last = null, scanned = 0 } = result.rows[0] ?? {}
  const rows = result.rows.filter((row) => row.endpoint_id !== null)
  return { rows, last: last ?? undefined, scanned }
}

function remake(encrypter: Encrypter, row: EncryptedSecret): Buffer | undefined {
  try {
    const secret = decryptSecret(encrypter, row.endpoint_id, row.sealed)
    return encryptSecret(encrypter, row.endpoint_id, secret)
  } catch {
    return undefined
  }
}

/** Replaces what is still as it was read, and not locked. @returns how many rows were replaced */
async function replace(
  pool: Pool,
  remade: readonly { readonly row: EncryptedSecret; readonly sealed: Buffer }[],
): Promise<number> {
  const result = await pool.query({
    name: 'webhook-secret-reEncrypt',
    text: `with input as (
        select * from unnest($1::text[], $2::int[], $3::bytea[], $4::bytea[])
          as i(endpoint_id, number, before, sealed)
      ), unchanged as (
        select s.endpoint_id, s.number
        from webhook_secret s join input i using (endpoint_id, number)
        where s.sealed = i.before for update of s skip locked
      )
      update webhook_secret s set sealed = i.sealed
      from input i join unchanged u using (endpoint_id, number)
      where s.endpoint_id = i.endpoint_id and s.number = i.number`,
    values: [
      textArray(remade.map(({ row }) => row.endpoint_id)),
      remade.map(({ row }) => row.number),
      byteaArray(remade.map(({ row }) => row.sealed)),
      byteaArray(remade.map(({ sealed }) => sealed)),
    ],
  })
  return result.rowCount ?? 0
}
