import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor, BusinessScope } from '../auth/caller.ts'
import { Fault } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import { inTransaction, type Queryable } from '../postgres/in-transaction.ts'
import { cutPage, readPage } from '../postgres/page-token.ts'
import type { Runtime } from '../postgres/runtime.ts'
import type { Discrepancy, NewDiscrepancy } from './discrepancy.ts'
import { requesterOf } from './reserve-payout.ts'

/** The columns of a `Row`. */
const COLUMNS = `id, kind, bank, live, line_key as "lineKey", bank_reference as "bankReference", session_id as "sessionId",
  coalesce(payout_id, '') as "payoutId", amount_minor as "amountMinor", account_number as "accountNumber", text,
  coalesce((select business_id from payout where payout.id = payout_id), '') as "businessId",
  round(date_part('epoch', found_at) * 1000) as "foundAtMs",
  round(date_part('epoch', resolved_at) * 1000) as "resolvedAtMs", resolved_by as "resolvedBy", note`

interface Row extends Omit<Discrepancy, 'amountMinor' | 'resolvedAtMs'> {
  readonly amountMinor: string
  readonly resolvedAtMs: number | null
}

function toDiscrepancy({ amountMinor, resolvedAtMs, ...row }: Row): Discrepancy {
  return { ...row, amountMinor: BigInt(amountMinor), resolvedAtMs: resolvedAtMs ?? undefined }
}

/**
 * Stores differences. If the bank now states other details than when a difference was resolved, the difference is reopened.
 *
 * @returns the differences that are new or reopened
 */
export async function storeDiscrepancies(
  on: Queryable,
  differences: readonly NewDiscrepancy[],
  nowMs: number,
): Promise<readonly Discrepancy[]> {
  if (differences.length === 0) return []
  // One statement cannot change a row twice.
  const keyOf = ({ bank, live, lineKey, kind }: NewDiscrepancy) =>
    JSON.stringify([bank, live, lineKey, kind])
  const found = [...new Map(differences.map((each) => [keyOf(each), each])).values()]
  const { rows } = await on.query<Row>(
    `insert into payout_discrepancy (id, kind, bank, live, line_key, bank_reference, session_id, payout_id, amount_minor,
        account_number, text, found_at)
      select id, kind, bank, live, line_key, bank_reference, session_id, nullif(payout_id, ''), amount_minor,
        account_number, text, $12
      from unnest($1::text[], $2::text[], $3::text[], $4::boolean[], $5::text[], $6::text[], $7::text[], $8::text[],
        $9::bigint[], $10::text[], $11::text[]) as found (id, kind, bank, live, line_key, bank_reference, session_id,
        payout_id, amount_minor, account_number, text)
      on conflict (bank, live, line_key, kind) do update
        set session_id = excluded.session_id, amount_minor = excluded.amount_minor,
          account_number = excluded.account_number, text = excluded.text, found_at = excluded.found_at,
          resolved_at = null, resolved_by = '', note = ''
        where payout_discrepancy.kind in ('MISMATCHED', 'PAID_TWICE') and payout_discrepancy.resolved_at is not null
          and payout_discrepancy.text <> excluded.text
      returning ${COLUMNS}`,
    [
      found.map(() => newId('pdc', nowMs)),
      found.map(({ kind }) => kind),
      found.map(({ bank }) => bank),
      found.map(({ live }) => live),
      found.map(({ lineKey }) => lineKey),
      found.map(({ bankReference }) => bankReference),
      found.map(({ sessionId }) => sessionId),
      found.map(({ payoutId }) => payoutId),
      found.map(({ amountMinor }) => amountMinor),
      found.map(({ accountNumber }) => accountNumber),
      found.map(({ text }) => text),
      new Date(nowMs),
    ],
  )
  return rows.map(toDiscrepancy)
}

/** Lists unresolved differences, oldest first. @param after the last id of the previous page; empty at the beginning */
export async function listOldestDiscrepancies(
  on: Queryable,
  { businessIds, live }: BusinessScope,
  after: string,
  limit: number,
): Promise<readonly Discrepancy[]> {
  const { rows } = await on.query<Row>(
    `select ${COLUMNS} from payout_discrepancy
      where resolved_at is null and id > $1 and ($2::boolean is null or live = $2)
        and ($3::text[] is null or exists (
          select from payout where payout.id = payout_id and business_id = any($3)))
      order by id limit $4`,
    [after, live ?? null, businessIds ?? null, limit],
  )
  return rows.map(toDiscrepancy)
}

/** Counts unresolved differences, up to `max`. */
export async function countDiscrepancies(
  on: Queryable,
  { businessIds, live }: BusinessScope,
  max: number,
): Promise<number> {
  const { rows } = await on.query<{ count: number }>(
    `select count(*)::int as count from (
        select from payout_discrepancy
        where resolved_at is null and ($1::boolean is null or live = $1)
          and ($2::text[] is null or exists (
            select from payout where payout.id = payout_id and business_id = any($2)))
        limit $3
      ) waiting`,
    [live ?? null, businessIds ?? null, max],
  )
  return rows[0]?.count ?? 0
}

/** One page of unresolved differences, newest first. @throws Fault validation_failed (the page token) */
export async function listDiscrepancies(
  on: Queryable,
  request: { readonly pageSize: number; readonly pageToken: string },
) {
  const page = readPage(request.pageSize, request.pageToken, 1)
  const { rows } = await on.query<Row>(
    `select ${COLUMNS} from payout_discrepancy where resolved_at is null and ($1::text is null or id < $1)
      order by id desc limit $2`,
    [page.after?.[0] ?? null, page.limit + 1],
  )
  return cutPage(rows.map(toDiscrepancy), page, ({ id }) => [id])
}

/** Ends the manual review of a difference; no payout changes. A repeat changes nothing. @throws Fault not_found */
export function resolveDiscrepancy(
  { database: { durablePool }, clock }: Runtime,
  { discrepancyId, note }: { readonly discrepancyId: string; readonly note: string },
  actor: Actor,
): Promise<Discrepancy> {
  return inTransaction(durablePool, async (client) => {
    const { rowCount } = await client.query(
      `update payout_discrepancy set resolved_at = $2, resolved_by = $3, note = $4
        where id = $1 and resolved_at is null`,
      [discrepancyId, new Date(clock.now()), requesterOf(actor), note],
    )
    const { rows } = await client.query<Row>(
      `select ${COLUMNS} from payout_discrepancy where id = $1`,
      [discrepancyId],
    )
    const [row] = rows
    if (row === undefined) throw new Fault('not_found', 'There is no such difference')
    if (rowCount === 1) {
      await appendAudit(client, actor, {
        action: 'payout_discrepancy.resolve',
        targetId: discrepancyId,
        businessId: row.businessId,
        details: { kind: row.kind, bank: row.bank, payoutId: row.payoutId, note },
      })
    }
    return toDiscrepancy(row)
  })
}

/** Resolves the MISSING_AT_BANK differences of payouts that the bank shows now. */
export async function resolveShown(
  on: Queryable,
  payoutIds: readonly string[],
  nowMs: number,
): Promise<void> {
  if (payoutIds.length === 0) return
  await on.query(
    `update payout_discrepancy set resolved_at = $2, resolved_by = 'system', note = 'the bank shows it now'
      where kind = 'MISSING_AT_BANK' and payout_id = any($1) and resolved_at is null`,
    [payoutIds, new Date(nowMs)],
  )
}
