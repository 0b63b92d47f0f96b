import type { Pool } from 'pg'
import type { BankCode } from '../banks/bank.ts'
import { booleanArray, byteaArray, textArray, timestampArray } from '../postgres/binary-arrays.ts'
import { DEADLINES } from '../postgres/client.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import type { Page } from '../postgres/page-token.ts'
import type { RowOf } from '../postgres/statement.ts'
import type { AccountEntity } from './account.entity.ts'
import type { OpenAccount, RequestedAccount, StoredAccount } from './account.ts'
import { insertSplits, type NewSplit, splitsValue } from './splits/split-store.ts'
import type { AccountTerms } from './terms.ts'

/**
 * A PENDING account, stored before the bank is asked to open it. Its terms have the time of expiry, even if a duration was
 * requested.
 */
export interface Reservation extends RequestedAccount {
  readonly idType: string | null
  readonly idNumberEncrypted: Uint8Array | null
  readonly idNumberHash: Uint8Array | null
  readonly detailsHash: Uint8Array
  readonly claimedUntilMs: number
  /** Undefined: its owner keeps everything. */
  readonly split: NewSplit | undefined
}

/** The columns of an account, except columns that only its opening and requests to its bank need. */
export type AccountRow = Omit<
  RowOf<typeof AccountEntity>,
  | 'id_type'
  | 'id_number_encrypted'
  | 'id_number_hash'
  | 'claimed_until_ms'
  | 'requeried_at_ms'
  | 'end_due_at_ms'
>

export const ACCOUNT_COLUMNS = `id, business_id, live, reference, merchant_reference, bank, connector,
  account_number, account_name, status, first_name, last_name, email, phone, bank_account_id,
  details_hash, opening_state, last_cause,
  round(date_part('epoch', next_try_at) * 1000) as next_try_at_ms, attempts,
  round(date_part('epoch', created_at) * 1000) as created_at_ms, one_time, expected_amount_minor, amount_rule,
  round(date_part('epoch', expires_at) * 1000) as expires_at_ms, expires_in_seconds, single_use,
  allowed_payers, metadata,
  round(date_part('epoch', used_at) * 1000) as used_at_ms,
  round(date_part('epoch', ended_at) * 1000) as ended_at_ms,
  round(date_part('epoch', imported_at) * 1000) as imported_at_ms`

/** Inserts accounts as PENDING. @returns the inserted ids; other references were already used */
export async function insertReservations(
  pool: Pool,
  rows: readonly Reservation[],
): Promise<ReadonlySet<string>> {
  const result = await pool.query<{ id: string }>({
    name: 'account-reserve',
    text: `with reserved as (insert into account (id, business_id, live, reference, merchant_reference, bank, status,
        first_name, last_name, email, phone, id_type, id_number_encrypted, details_hash, id_number_hash,
        connector, attempts, claimed_until, next_try_at, created_at, one_time, expected_amount_minor,
        amount_rule, expires_at, expires_in_seconds, single_use, allowed_payers, metadata)
      select id, business_id, live, reference, merchant_reference, bank, 'PENDING',
        first_name, last_name, email, phone, id_type, id_number_encrypted, details_hash, id_number_hash,
        connector, 1, claimed_until, claimed_until, created_at, amount_rule is not null,
        expected_amount_minor::bigint, coalesce(amount_rule, 'ANY'), expires_at::timestamptz,
        expires_in_seconds::int, coalesce(single_use, false), allowed_payers::jsonb, metadata::jsonb
      from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[],
        $7::text[], $8::text[], $9::text[], $10::text[], $11::bytea[], $12::bytea[],
        $13::timestamptz[], $14::timestamptz[], $15::boolean[], $16::bytea[],
        $17::text[], $18::text[], $19::text[], $20::text[], $21::text[], $22::boolean[], $23::text[],
        $24::text[])
        as r(id, business_id, reference, merchant_reference, bank, first_name, last_name, email,
          phone, id_type, id_number_encrypted, details_hash, claimed_until, created_at, live,
          id_number_hash, connector, expected_amount_minor, amount_rule, expires_at, expires_in_seconds,
          single_use, allowed_payers, metadata)
      order by business_id, live, merchant_reference
      on conflict (business_id, live, merchant_reference) do nothing returning id
      ), ${insertSplits('$25', 'reserved')}
      select id from reserved`,
    values: [
      textArray(rows.map((row) => row.id)),
      textArray(rows.map((row) => row.businessId)),
      textArray(rows.map((row) => row.reference)),
      textArray(rows.map((row) => row.merchantReference)),
      textArray(rows.map((row) => row.bank)),
      textArray(rows.map((row) => row.firstName)),
      textArray(rows.map((row) => row.lastName)),
      textArray(rows.map((row) => row.email)),
      textArray(rows.map((row) => row.phone)),
      textArray(rows.map((row) => row.idType)),
      byteaArray(rows.map((row) => row.idNumberEncrypted)),
      byteaArray(rows.map((row) => row.detailsHash)),
      timestampArray(rows.map((row) => row.claimedUntilMs)),
      timestampArray(rows.map((row) => row.createdAtMs)),
      booleanArray(rows.map((row) => row.live)),
      byteaArray(rows.map((row) => row.idNumberHash)),
      textArray(rows.map((row) => row.connector)),
      ...termsArrays(rows),
      splitsValue(rows.flatMap(({ split }) => split ?? [])),
    ],
  })
  return new Set(result.rows.map((row) => row.id))
}

/** Texts that the statement casts; the rule is null for a permanent account. */
function termsArrays(rows: readonly Reservation[]): Buffer[] {
  const text = (read: (terms: AccountTerms) => string | number | bigint | undefined) =>
    textArray(rows.map(({ terms }) => (terms && read(terms))?.toString() ?? null))
  return [
    text(({ expectedAmountMinor }) => expectedAmountMinor),
    text(({ amountRule }) => amountRule),
    text(({ expiresAtMs }) => (expiresAtMs === undefined ? undefined : isoTime(expiresAtMs))),
    text(({ expiresInSeconds }) => expiresInSeconds),
    booleanArray(rows.map(({ terms }) => terms?.singleUse ?? null)),
    text(({ allowedPayers }) =>
      allowedPayers.length === 0 ? undefined : JSON.stringify(allowedPayers),
    ),
    textArray(rows.map(({ metadata }) => (metadata ? JSON.stringify(metadata) : null))),
  ]
}

const isoTime = (atMs: number) => new Date(atMs).toISOString()

/** Finds an account in one mode by the business's own reference. */
export async function findByMerchantReference(
  pool: Pool,
  businessId: string,
  live: boolean,
  merchantReference: string,
): Promise<StoredAccount | undefined> {
  const result = await pool.query<AccountRow>({
    name: 'account-find-merchant-reference',
    text: `select ${ACCOUNT_COLUMNS} from account
      where business_id = $1 and live = $2 and merchant_reference = $3`,
    values: [businessId, live, merchantReference],
  })
  return result.rows[0] && toStored(result.rows[0])
}

/** Whether a text is the reference with which another account of the business was imported. */
export async function isImportedReference(
  pool: Pool,
  businessId: string,
  live: boolean,
  reference: string,
): Promise<boolean> {
  const { rowCount } = await pool.query(
    `select from account where reference = $3 and business_id = $1 and live = $2
      and merchant_reference <> $3`,
    [businessId, live, reference],
  )
  return rowCount === 1
}

/** The keyed hash of the identity of an account; undefined if it has none. */
export async function findIdentityHash(pool: Pool, id: string): Promise<Buffer | undefined> {
  const { rows } = await pool.query<{ hash: Buffer | null }>(
    'select id_number_hash as hash from account where id = $1',
    [id],
  )
  return rows[0]?.hash ?? undefined
}

/**
 * Finds an account by the reference that Inflow returned, or else by the business's own.
 *
 * @param live the mode; undefined: either mode, and the live account is preferred
 */
export async function findByEitherReference(
  pool: Queryable,
  businessId: string,
  live: boolean | undefined,
  reference: string,
): Promise<StoredAccount | undefined> {
  const result = await pool.query<AccountRow>({
    name: 'account-find-either-reference',
    text: `select ${ACCOUNT_COLUMNS} from account
      where (reference = $2 and business_id = $1 and live = any($3))
        or (business_id = $1 and live = any($3) and merchant_reference = $2)
      order by reference = $2 desc, live desc limit 1`,
    values: [businessId, reference, live === undefined ? [true, false] : [live]],
  })
  return result.rows[0] && toStored(result.rows[0])
}

/**
 * The accounts of a customer of a business in a mode, by the e-mail address as it is stored, newest first.
 *
 * @returns one more than the page holds if there are more
 */
export async function getAccountsOfCustomer(
  pool: Queryable,
  { businessId, live, email }: { businessId: string; live: boolean; email: string },
  { after, limit }: Page,
): Promise<readonly StoredAccount[]> {
  const { rows } = await pool.query<AccountRow>({
    name: 'account-list-email',
    text: `select ${ACCOUNT_COLUMNS} from account
      where email = $1 and live = $2 and business_id = $3 and ($4::text is null or id < $4)
      order by id desc limit $5`,
    values: [email, live, businessId, after?.[0], limit + 1],
  })
  return rows.map(toStored)
}

export async function findById(pool: Pool, id: string): Promise<StoredAccount | undefined> {
  const result = await pool.query<AccountRow>({
    name: 'account-find-id',
    query_timeout: DEADLINES.hot,
    text: `select ${ACCOUNT_COLUMNS} from account where id = $1`,
    values: [id],
  })
  return result.rows[0] && toStored(result.rows[0])
}

/** Finds the accounts that take payments by bank and number: at most one in each mode. */
export async function findByNumbers(
  pool: Pool,
  keys: readonly { readonly bank: BankCode; readonly accountNumber: string }[],
): Promise<readonly OpenAccount[]> {
  const result = await pool.query<AccountRow>({
    name: 'account-find-numbers',
    query_timeout: DEADLINES.hot,
    text: `select ${ACCOUNT_COLUMNS} from account
      join unnest($1::text[], $2::text[]) as k(number, code)
        on account_number = k.number and bank = k.code
      where status in ('ACTIVE', 'EXPIRED')`,
    values: [
      textArray(keys.map((key) => key.accountNumber)),
      textArray(keys.map((key) => key.bank)),
    ],
  })
  return result.rows.map((row) => toStored(row) as OpenAccount)
}

/** Finds the accounts of a business in one mode by bank and number, in any state but PENDING. */
export async function findAccountsOfNumbers(
  on: Queryable,
  { businessId, live }: { readonly businessId: string; readonly live: boolean },
  keys: readonly { readonly bank: BankCode; readonly accountNumber: string }[],
): Promise<
  readonly { readonly id: string; readonly bank: BankCode; readonly accountNumber: string }[]
> {
  const { rows } = await on.query<{ id: string; bank: BankCode; accountNumber: string }>({
    name: 'account-find-of-numbers',
    text: `select a.id, a.bank, a.account_number as "accountNumber"
      from unnest((select $1::text[]), (select $2::text[])) as k(number, code)
      cross join lateral (select * from account
        where account_number = k.number and bank = k.code and live = $3 offset 0) a
      where a.business_id = $4`,
    values: [
      textArray(keys.map((key) => key.accountNumber)),
      textArray(keys.map((key) => key.bank)),
      live,
      businessId,
    ],
  })
  return rows
}

export function toStored(row: AccountRow): StoredAccount {
  return {
    id: row.id,
    businessId: row.business_id,
    live: row.live,
    reference: row.reference,
    merchantReference: row.merchant_reference,
    bank: row.bank,
    connector: row.connector,
    accountNumber: row.account_number ?? undefined,
    accountName: row.account_name ?? undefined,
    status: row.status,
    firstName: row.first_name,
    lastName: row.last_name,
    email: row.email,
    phone: row.phone,
    bankAccountId: row.bank_account_id,
    // A copy: the driver's buffer is a slice that would keep its 64 KiB parent in memory.
    detailsHash: Uint8Array.from(row.details_hash),
    openingState: row.opening_state,
    lastCause: row.last_cause,
    nextTryAtMs: row.next_try_at_ms ?? undefined,
    attempts: row.attempts,
    createdAtMs: row.created_at_ms,
    terms: row.one_time ? toTerms(row) : undefined,
    metadata: row.metadata ?? undefined,
    importedAtMs: row.imported_at_ms ?? undefined,
  }
}

/** The columns of the terms of a one-time account. */
export type TermsRow = Pick<
  AccountRow,
  | 'expected_amount_minor'
  | 'amount_rule'
  | 'expires_at_ms'
  | 'expires_in_seconds'
  | 'single_use'
  | 'allowed_payers'
  | 'used_at_ms'
  | 'ended_at_ms'
>

export function toTerms(row: TermsRow): AccountTerms {
  return {
    expectedAmountMinor:
      row.expected_amount_minor === null ? undefined : BigInt(row.expected_amount_minor),
    amountRule: row.amount_rule,
    expiresAtMs: row.expires_at_ms ?? undefined,
    expiresInSeconds: row.expires_in_seconds ?? undefined,
    singleUse: row.single_use,
    allowedPayers: row.allowed_payers ?? [],
    usedAtMs: row.used_at_ms ?? undefined,
    endedAtMs: row.ended_at_ms ?? undefined,
  }
}
