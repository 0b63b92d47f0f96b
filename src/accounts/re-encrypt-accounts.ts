import type { Pool } from 'pg'
import type { BankCode, IdKind } from '../banks/bank.ts'
import { countByKey, type EncryptedRows, type ReEncryptedPage } from '../crypto/encrypted-rows.ts'
import { type Encrypter, FINGERPRINT_BYTES } from '../crypto/encryption.ts'
import { byteaArray, textArray } from '../postgres/binary-arrays.ts'
import { detailsText, identityContext, identityText } from './account.ts'

/** The values of an account that depend on the master key, and their inputs. */
interface EncryptedAccount {
  id: string
  bank: BankCode
  first_name: string
  last_name: string
  email: string
  phone: string
  id_type: IdKind | null
  id_number_encrypted: Buffer | null
  id_number_hash: Buffer | null
  details_hash: Buffer
}

interface ReEncryptedAccount {
  readonly before: EncryptedAccount
  readonly idNumberEncrypted: Buffer | null
  readonly idNumberHash: Buffer | null
  readonly detailsHash: Buffer
}

const COLUMNS = `id, bank, first_name, last_name, email, phone, id_type, id_number_encrypted,
  id_number_hash, details_hash`

/** The encrypted identity numbers, their hashes, and the hashes of the details. */
export function encryptedAccounts(pool: Pool): EncryptedRows {
  return {
    name: 'accounts',
    async reEncrypt(encrypter, after, limit) {
      const { rows, last, scanned } = await readStale(pool, encrypter, after, limit)
      return { ...(await reEncryptAll(pool, encrypter, rows)), scanned, next: last }
    },
    countByKey: () =>
      countByKey(
        pool,
        `select encode(substr(id_number_encrypted, 2, 4), 'hex') as key_id, count(*) from account
            where id_number_encrypted is not null group by 1
          union all
          select coalesce(encode(substr(id_number_hash, 2, 4), 'hex'), ''), count(*) from account
            where id_number_encrypted is not null group by 1
          union all
          select case when length(details_hash) = ${FINGERPRINT_BYTES}
              then encode(substr(details_hash, 2, 4), 'hex') else '' end, count(*)
            from account group by 1`,
      ),
    async matchesKeys(encrypter) {
      const result = await pool.query<EncryptedAccount>(`select ${COLUMNS} from account limit 1`)
      const row = result.rows[0]
      return row && reEncryptAccount(encrypter, row) !== undefined
    },
  }
}

/**
 * Adds the search hash to identity numbers that were stored without one.
 *
 * @returns the ids of accounts whose identity number cannot be decrypted
 */
export async function hashIdentityNumbers(
  pool: Pool,
  encrypter: Encrypter,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const unreadable: string[] = []
  let after = ''
  while (!signal.aborted) {
    const result = await pool.query<EncryptedAccount>(
      `select ${COLUMNS} from account
        where id > $1 and id_number_encrypted is not null and id_number_hash is null
        order by id limit 200`,
      [after],
    )
    const last = result.rows.at(-1)
    if (last === undefined) break
    after = last.id
    unreadable.push(...(await reEncryptAll(pool, encrypter, result.rows)).unreadable)
  }
  return unreadable
}

/** Reads the next accounts and returns those with a value that is not under the current key. */
async function readStale(pool: Pool, encrypter: Encrypter, after: string, limit: number) {
  const result = await pool.query<EncryptedAccount & { last: string | null; scanned: number }>(
    `with page as (select ${COLUMNS} from account where id > $1 order by id limit $2)
      select l.last, l.scanned, p.*
      from (select max(id) as last, count(*)::int as scanned from page) l
      left join page p on length(details_hash) <> ${FINGERPRINT_BYTES}
        or substr(details_hash, 1, 5) <> $3 or substr(id_number_encrypted, 1, 5) <> $3
        or (id_number_encrypted is not null
          and (id_number_hash is null or substr(id_number_hash, 1, 5) <> $3))`,
    [after, limit, encrypter.head],
  )
  const { last = null, scanned = 0 } = result.rows[0] ?? {}
  return { rows: result.rows.filter((row) => row.id !== null), last: last ?? undefined, scanned }
}

async function reEncryptAll(
  pool: Pool,
  encrypter: Encrypter,
  rows: readonly EncryptedAccount[],
): Promise<Pick<ReEncryptedPage, 'reEncrypted' | 'skipped' | 'unreadable'>> {
  const all = rows.map((row) => reEncryptAccount(encrypter, row))
  const reEncryptedAccounts = all.filter((each) => each !== undefined)
  const unreadable = rows.filter((_, index) => all[index] === undefined).map((row) => row.id)
  const reEncrypted =
    reEncryptedAccounts.length === 0 ? 0 : await replaceUnchanged(pool, reEncryptedAccounts)
  return { reEncrypted, skipped: reEncryptedAccounts.length - reEncrypted, unreadable }
}

/** @returns undefined if no known key decrypts the values, or they do not match the details */
function reEncryptAccount(
  encrypter: Encrypter,
  row: EncryptedAccount,
): ReEncryptedAccount | undefined {
  try {
    const encrypted = row.id_number_encrypted
    const idNumber = encrypted ? encrypter.decrypt(encrypted, identityContext(row.id)) : undefined
    const idType = row.id_type ?? undefined
    const details = detailsText({
      bank: row.bank,
      firstName: row.first_name,
      lastName: row.last_name,
      email: row.email,
      phone: row.phone,
      idType,
      idNumber,
    })
    if (!encrypter.matches(details, row.details_hash)) return undefined
    const text = idNumber && identityText(idType, idNumber)
    return {
      before: row,
      idNumberEncrypted: idNumber ? encrypter.encrypt(idNumber, identityContext(row.id)) : null,
      idNumberHash: text ? encrypter.fingerprint(text) : null,
      detailsHash: encrypter.fingerprint(details),
    }
  } catch {
    return undefined
  }
}

/**
 * Replaces the rows that have not changed since they were read. It skips locked rows and never
 * waits for a lock, so it cannot be part of a deadlock. @returns how many rows were replaced
 */
async function replaceUnchanged(
  pool: Pool,
  accounts: readonly ReEncryptedAccount[],
): Promise<number> {
  const result = await pool.query({
    name: 'account-re-encrypt',
    text: `with input as (
        select * from unnest($1::text[], $2::bytea[], $3::bytea[], $4::bytea[], $5::bytea[],
          $6::bytea[], $7::bytea[])
          as i(id, encrypted_before, id_hash_before, hash_before, encrypted, id_hash, hash)
      ), unchanged as (
        select a.id from account a join input i using (id)
        where a.id_number_encrypted is not distinct from i.encrypted_before
          and a.id_number_hash is not distinct from i.id_hash_before
          and a.details_hash = i.hash_before
        for update of a skip locked
      )
      update account a set id_number_encrypted = i.encrypted, id_number_hash = i.id_hash,
        details_hash = i.hash
      from input i join unchanged u using (id) where a.id = i.id`,
    values: [
      textArray(accounts.map(({ before }) => before.id)),
      byteaArray(accounts.map(({ before }) => before.id_number_encrypted)),
      byteaArray(accounts.map(({ before }) => before.id_number_hash)),
      byteaArray(accounts.map(({ before }) => before.details_hash)),
      byteaArray(accounts.map((each) => each.idNumberEncrypted)),
      byteaArray(accounts.map((each) => each.idNumberHash)),
      byteaArray(accounts.map((each) => each.detailsHash)),
    ],
  })
  return result.rowCount ?? 0
}
