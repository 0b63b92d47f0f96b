import type { PoolClient } from 'pg'
import { textArray } from '../../postgres/binary-arrays.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'
import { type FeeBearer, FROM_THE_START, type Split, type SplitRecipient } from './split.ts'

/** A version to insert. Undefined recipients: the owner keeps everything. */
export interface NewSplit {
  readonly id: string
  readonly accountId: string
  readonly validFromMs: number
  readonly split: Split | undefined
}

/**
 * SQL: subqueries for `with` that insert the versions of accounts in another subquery.
 *
 * @param splits a parameter: see `splitsValue`
 */
export const insertSplits = (splits: string, accounts: string) => `given as (
        select s.* from jsonb_to_recordset(${splits}::jsonb)
            as s(id text, account_id text, valid_from timestamptz, fee_bearer text, recipients jsonb)
          join ${accounts} a on a.id = s.account_id
      ), version as (
        insert into account_split (id, account_id, valid_from, fee_bearer)
        select id, account_id, valid_from, fee_bearer from given
      ), recipient as (
        insert into account_split_recipient (split_id, number, business_id, basis_points, fixed_minor)
        select g.id, r.number, r.share ->> 'business_id', (r.share ->> 'basis_points')::int,
          (r.share ->> 'fixed_minor')::bigint
        from given g cross join lateral jsonb_array_elements(g.recipients) with ordinality r(share, number)
      )`

/** Versions as the value of a parameter. */
export function splitsValue(splits: readonly NewSplit[]): string {
  return JSON.stringify(
    splits.map(({ id, accountId, validFromMs, split }) => ({
      id,
      account_id: accountId,
      valid_from: new Date(validFromMs).toISOString(),
      fee_bearer: split?.feeBearer ?? 'OWNER',
      recipients: (split?.recipients ?? []).map((recipient) => ({
        business_id: recipient.businessId,
        basis_points: recipient.basisPoints,
        fixed_minor: recipient.fixedMinor?.toString(),
      })),
    })),
  )
}

/** Inserts a version of an account that exists. */
export async function insertSplit(client: PoolClient, split: NewSplit): Promise<void> {
  await client.query(
    `with account as (select $2::text as id), ${insertSplits('$1', 'account')} select from given`,
    [splitsValue([split]), split.accountId],
  )
}

/** The time from which the last version of an account is valid; undefined if it has none. */
export async function findLastValidFrom(
  client: PoolClient,
  accountId: string,
): Promise<number | undefined> {
  const { rows } = await client.query<{ valid_from_ms: number | null }>(
    `select round(date_part('epoch', max(valid_from)) * 1000) as valid_from_ms from account_split where account_id = $1`,
    [accountId],
  )
  return rows[0]?.valid_from_ms ?? undefined
}

interface Row {
  account_id: string
  fee_bearer: FeeBearer
  business_id: string
  basis_points: number | null
  fixed_minor: string | null
}

/**
 * The splits of some accounts, by account. Accounts whose owner keeps everything are left out.
 *
 * @param which the current splits, or the splits with which the accounts were opened
 */
export async function findSplits(
  client: Queryable,
  accountIds: readonly string[],
  which: 'current' | 'first' = 'current',
): Promise<ReadonlyMap<string, Split>> {
  if (accountIds.length === 0) return new Map()
  const { rows } = await client.query<Row>({
    name: 'account-splits',
    text: `select v.account_id, v.fee_bearer, r.business_id, r.basis_points, r.fixed_minor
      from unnest((select $1::text[])) k(id) cross join lateral (
          select s.id, s.account_id, s.fee_bearer from account_split s
          where s.account_id = k.id and s.valid_from <= $2
          order by s.valid_from desc limit 1
        ) v cross join lateral (
          select * from account_split_recipient r where r.split_id = v.id offset 0
        ) r
      order by v.account_id, r.number`,
    values: [textArray(accountIds), which === 'first' ? new Date(FROM_THE_START) : 'infinity'],
  })
  const found = new Map<string, Split & { readonly recipients: SplitRecipient[] }>()
  for (const row of rows) {
    const split = found.get(row.account_id) ?? { recipients: [], feeBearer: row.fee_bearer }
    split.recipients.push({
      businessId: row.business_id,
      basisPoints: row.basis_points ?? undefined,
      fixedMinor: row.fixed_minor === null ? undefined : BigInt(row.fixed_minor),
    })
    found.set(row.account_id, split)
  }
  return found
}

/** The current split of an account; undefined: its owner keeps everything. */
export async function findSplit(client: Queryable, accountId: string): Promise<Split | undefined> {
  return (await findSplits(client, [accountId])).get(accountId)
}
