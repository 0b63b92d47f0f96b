import type { EntityManager } from '@mikro-orm/postgresql'
import type { Pool } from 'pg'
import {
  countByKey,
  type EncryptedRows,
  estimateRows,
  type ReEncryptedPage,
} from '../crypto/encrypted-rows.ts'
import { type Encrypter, FINGERPRINT_BYTES } from '../crypto/encryption.ts'
import { byteaArray, textArray } from '../postgres/binary-arrays.ts'
import type { Database } from '../postgres/orm.ts'
import { queriesOf } from '../postgres/queries-of.ts'
import type { AccountEntity } from './account.entity.ts'
import { detailsText, identityContext, identityText } from './account.ts'
import type { Split } from './splits/split.ts'
import { findSplits } from './splits/split-store.ts'
import { readDetails, readHashedDetails } from './stored-details.ts'

/** The values of accounts that depend on the master key, and their inputs. */
const selectEncrypted = (em: EntityManager) =>
  queriesOf<typeof AccountEntity>(em)
    .selectFrom('account')
    .select(['id', 'bank', 'firstName', 'lastName', 'email', 'phone', 'idType'])
    .select(['idNumberEncrypted', 'idNumberHash', 'detailsHash'])
    .select(['oneTime', 'expectedAmountMinor', 'amountRule', 'expiresAt', 'expiresInSeconds'])
    .select(['singleUse', 'allowedPayers', 'metadata'])

type EncryptedAccount = Awaited<
  ReturnType<ReturnType<typeof selectEncrypted>['executeTakeFirstOrThrow']>
>

interface ReEncryptedAccount {
  readonly before: EncryptedAccount
  readonly idNumberEncrypted: Buffer | null
  readonly idNumberHash: Buffer | null
  readonly detailsHash: Buffer
}

/** The encrypted identity numbers, their hashes, and the hashes of the details. */
export function encryptedAccounts({ durablePool, orm }: Database): EncryptedRows {
  return {
    name: 'accounts',
    async reEncrypt(encrypter, after, limit) {
      const page = await selectEncrypted(orm.em.fork())
        .where('id', '>', after)
        .orderBy('id')
        .limit(limit)
        .execute()
      const stale = page.filter((account) => isStale(encrypter, account))
      const result = await reEncryptAll(durablePool, encrypter, stale)
      return { ...result, scanned: page.length, next: page.at(-1)?.id }
    },
    estimateRows: () => estimateRows(durablePool, 'account'),
    countByKey: () =>
      countByKey(
        durablePool,
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
      const account = await selectEncrypted(orm.em.fork()).limit(1).executeTakeFirst()
      if (account === undefined) return undefined
      const splits = await findSplits(durablePool, [account.id], 'first')
      return reEncryptAccount(encrypter, account, splits.get(account.id)) !== undefined
    },
  }
}

/** Whether an account has a value that is not under the current key. */
function isStale(
  { head }: Encrypter,
  { detailsHash, idNumberEncrypted, idNumberHash }: EncryptedAccount,
): boolean {
  if (detailsHash.length !== FINGERPRINT_BYTES) return true
  const values = idNumberEncrypted ? [detailsHash, idNumberEncrypted, idNumberHash] : [detailsHash]
  return values.some((value) => !value || head.compare(value.subarray(0, head.length)) !== 0)
}

async function reEncryptAll(
  pool: Pool,
  encrypter: Encrypter,
  rows: readonly EncryptedAccount[],
): Promise<Pick<ReEncryptedPage, 'reEncrypted' | 'skipped' | 'unreadable'>> {
  const ids = rows.map((row) => row.id)
  const splits = await findSplits(pool, ids, 'first')
  const all = rows.map((row) => reEncryptAccount(encrypter, row, splits.get(row.id)))
  const reEncryptedAccounts = all.filter((each) => each !== undefined)
  const unreadable = rows.filter((_, index) => all[index] === undefined).map((row) => row.id)
  const reEncrypted =
    reEncryptedAccounts.length === 0 ? 0 : await replaceUnchanged(pool, reEncryptedAccounts)
  return { reEncrypted, skipped: reEncryptedAccounts.length - reEncrypted, unreadable }
}

/** @returns undefined if no known key decrypts the values, or they do not match the details */
function reEncryptAccount(
  encrypter: Encrypter,
  account: EncryptedAccount,
  split: Split | undefined,
): ReEncryptedAccount | undefined {
  try {
    const { id } = account
    const { idType, idNumber } = readDetails(encrypter, account)
    const hashed = readHashedDetails(encrypter, account, split)
    if (hashed === undefined) return undefined
    const text = idNumber && identityText(idType, idNumber)
    return {
      before: account,
      idNumberEncrypted: idNumber ? encrypter.encrypt(idNumber, identityContext(id)) : null,
      idNumberHash: text ? encrypter.fingerprint(text) : null,
      detailsHash: encrypter.fingerprint(detailsText(hashed)),
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
      byteaArray(accounts.map(({ before }) => before.idNumberEncrypted)),
      byteaArray(accounts.map(({ before }) => before.idNumberHash)),
      byteaArray(accounts.map(({ before }) => before.detailsHash)),
      byteaArray(accounts.map((each) => each.idNumberEncrypted)),
      byteaArray(accounts.map((each) => each.idNumberHash)),
      byteaArray(accounts.map((each) => each.detailsHash)),
    ],
  })
  return result.rowCount ?? 0
}
