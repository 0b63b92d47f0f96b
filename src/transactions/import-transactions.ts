import type { Pool, PoolClient } from 'pg'
import { findAccountsOfNumbers } from '../accounts/get-account.ts'
import { DUPLICATE, IMPORTED, type RowResult, rejected } from '../accounts/import-accounts.ts'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import { type Actor, credentialIdOf } from '../auth/caller.ts'
import type { BankCode } from '../banks/bank.ts'
import { DAY_MS } from '../core/durations.ts'
import { assert, type FieldFault } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import { bigintArray, booleanArray, textArray, timestampArray } from '../postgres/binary-arrays.ts'
import { inTransaction } from '../postgres/in-transaction.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { findRecorded } from './queries.ts'
import { canBePaidAt, type Payer, type RecordedBy, type TransactionStatus } from './transaction.ts'

/** A payment of the history of another provider. */
export interface ImportedTransaction {
  readonly sessionId: string
  readonly bank: BankCode
  readonly accountNumber: string
  readonly amountMinor: bigint
  readonly status: Exclude<TransactionStatus, 'PENDING'>
  /** Whether the provider settled it. */
  readonly settled: boolean
  readonly paidAtMs: number
  readonly payer: Payer
  readonly narration: string
}

/** A row of a call, with the faults of its fields. */
export interface ImportedPaymentRow {
  /** Undefined: its fields are not valid. */
  readonly payment?: ImportedTransaction
  readonly faults: readonly FieldFault[]
}

interface Dependencies {
  /** Throws Fault not_found. */
  readonly aliasOf: (businessId: string) => Promise<string>
}

interface ImportRequest {
  readonly businessId: string
  readonly live: boolean
  readonly validateOnly: boolean
  readonly rows: readonly ImportedPaymentRow[]
}

interface Candidate {
  readonly id: string
  readonly payment: ImportedTransaction
  readonly accountId: string
}

/**
 * Imports payments as history: they get no postings and no events. Their sessions count as recorded, so no later report
 * credits them. Each row has its own result, in order; a repeated row is a duplicate. One statement inserts all rows, so
 * concurrent calls do not import a payment twice.
 *
 * Faults: not_found (the business).
 */
export async function importTransactions(
  { database: { durablePool }, clock }: Runtime,
  { aliasOf }: Dependencies,
  request: ImportRequest,
  actor: Actor,
): Promise<readonly RowResult[]> {
  const { businessId, rows, validateOnly } = request
  await aliasOf(businessId)
  const nowMs = clock.now()
  const accountOf = await findAccounts(durablePool, request)
  const results = new Map<number, RowResult>()
  const candidates = new Map<number, Candidate>()
  const repeatOf = new Map<number, number>()
  const seen = new Map<string, number>()
  for (const [index, row] of rows.entries()) {
    const checked = checkRow(row, accountOf, nowMs)
    if ('faults' in checked) {
      results.set(index, rejected(checked.faults))
      continue
    }
    const key = sessionKey(checked.payment)
    const earlier = seen.get(key)
    if (earlier === undefined) {
      seen.set(key, index)
      candidates.set(index, checked)
    } else if (isSame(candidates.get(earlier), checked)) repeatOf.set(index, earlier)
    else results.set(index, rejected([differs('repeats an earlier row with other details')]))
  }
  const valid = [...candidates.values()]
  const inserted = validateOnly
    ? new Set<string>()
    : await inTransaction(durablePool, (client) => insertAll(client, request, valid, actor, nowMs))
  const stored = await compareStored(
    durablePool,
    request,
    valid.filter(({ id }) => !inserted.has(id)),
  )
  for (const [index, { id }] of candidates) results.set(index, stored.get(id) ?? IMPORTED)
  for (const [index, earlier] of repeatOf) {
    const result = results.get(earlier)
    assert(result, 'an earlier row has a result')
    results.set(index, result.outcome === 'REJECTED' ? result : DUPLICATE)
  }
  return rows.map((_, index) => results.get(index) as RowResult)
}

const sessionKey = ({ bank, sessionId }: ImportedTransaction) => `${bank} ${sessionId}`

const numberKey = (bank: BankCode, accountNumber: string) => `${bank} ${accountNumber}`

const differs = (message: string): FieldFault => ({ field: 'sessionId', message })

/** The ids of the business's accounts by bank and number. Closed accounts are included: they have a history, too. */
async function findAccounts(
  pool: Pool,
  { businessId, live, rows }: ImportRequest,
): Promise<ReadonlyMap<string, string>> {
  const keys = new Map<string, ImportedTransaction>()
  for (const { payment } of rows) {
    if (payment) keys.set(numberKey(payment.bank, payment.accountNumber), payment)
  }
  const found = await findAccountsOfNumbers(pool, { businessId, live }, [...keys.values()])
  return new Map(found.map(({ id, bank, accountNumber }) => [numberKey(bank, accountNumber), id]))
}

function checkRow(
  { payment, faults }: ImportedPaymentRow,
  accountOf: ReadonlyMap<string, string>,
  nowMs: number,
): Candidate | { readonly faults: readonly FieldFault[] } {
  if (payment === undefined || faults.length > 0) return { faults }
  const { bank, accountNumber, paidAtMs, settled, status } = payment
  const further: FieldFault[] = []
  const accountId = accountOf.get(numberKey(bank, accountNumber))
  if (accountId === undefined) {
    const message = 'belongs to no account of the business at this bank in this mode'
    further.push({ field: 'accountNumber', message })
  }
  if (settled && status === 'FAILED') {
    further.push({ field: 'settled', message: 'must not be true for FAILED' })
  }
  if (!canBePaidAt(paidAtMs) || paidAtMs > nowMs + CLOCKS_APART_MS) {
    further.push({ field: 'paidAt', message: 'must be a time from 2000 to now' })
  }
  if (accountId === undefined || further.length > 0) return { faults: further }
  return { id: newId('txn', nowMs), payment, accountId }
}

/** How far the clock of a bank may be ahead. */
const CLOCKS_APART_MS = DAY_MS

function isSame(one: Candidate | undefined, other: Candidate): boolean {
  const { payment, accountId } = other
  return (
    one !== undefined &&
    one.accountId === accountId &&
    one.payment.amountMinor === payment.amountMinor &&
    one.payment.status === payment.status &&
    one.payment.settled === payment.settled
  )
}

async function insertAll(
  client: PoolClient,
  { businessId, live }: ImportRequest,
  rows: readonly Candidate[],
  actor: Actor,
  nowMs: number,
): Promise<ReadonlySet<string>> {
  if (rows.length === 0) return new Set()
  const recordedBy: RecordedBy = `import:${credentialIdOf(actor)}`
  const payments = rows.map(({ payment }) => payment)
  const text = (read: (payment: ImportedTransaction) => string) => textArray(payments.map(read))
  // Not prepared: the planner then knows how many rows there are.
  const { rows: inserted } = await client.query<{ id: string }>(
    `with input as materialized (
        select * from unnest($5::text[], $6::text[], $7::text[], $8::text[], $9::bigint[], $10::text[], $11::boolean[],
          $12::timestamptz[], $13::text[], $14::text[], $15::text[], $16::text[], $17::text[])
          as i(id, account_id, bank, session_id, amount_minor, status, settled, paid_at, payer_name,
            payer_account_number, payer_bank_code, payer_bank_name, narration)
      ), new_session as (
        -- Every statement inserts in the same order, to prevent deadlocks.
        insert into payment_session (session_id, bank, live, transaction_id)
        select session_id, bank, $2, id from input order by session_id, bank
        on conflict (session_id, bank, live) do nothing returning transaction_id
      )
      insert into transaction (id, business_id, account_id, live, bank, session_id, amount_minor, status, paid_at,
        created_at, payer_name, payer_account_number, payer_bank_code, payer_bank_name, narration, recorded_by,
        imported_settled)
      select id, $1, account_id, $2, bank, session_id, amount_minor, status, paid_at, $3, payer_name,
        payer_account_number, payer_bank_code, payer_bank_name, narration, $4, settled
      from input where id in (select transaction_id from new_session) returning id`,
    [
      businessId,
      live,
      new Date(nowMs),
      recordedBy,
      textArray(rows.map(({ id }) => id)),
      textArray(rows.map(({ accountId }) => accountId)),
      text(({ bank }) => bank),
      text(({ sessionId }) => sessionId),
      bigintArray(payments.map(({ amountMinor }) => amountMinor)),
      text(({ status }) => status),
      booleanArray(payments.map(({ settled }) => settled)),
      timestampArray(payments.map(({ paidAtMs }) => paidAtMs)),
      text(({ payer }) => payer.name),
      text(({ payer }) => payer.accountNumber),
      text(({ payer }) => payer.bankCode),
      text(({ payer }) => payer.bankName),
      text(({ narration }) => narration),
    ],
  )
  if (inserted.length > 0) {
    const details = { transactions: inserted.length, mode: live ? 'live' : 'test' }
    await appendAudit(client, actor, {
      action: 'transaction.import',
      targetId: businessId,
      businessId,
      details,
    })
  }
  return new Set(inserted.map(({ id }) => id))
}

/** Compares rows with the payments that are recorded for their sessions. A new session has no result. */
async function compareStored(
  pool: Pool,
  { live }: ImportRequest,
  rows: readonly Candidate[],
): Promise<ReadonlyMap<string, RowResult>> {
  const results = new Map<string, RowResult>()
  if (rows.length === 0) return results
  const keys = rows.map(({ payment: { bank, sessionId } }) => ({ bank, sessionId, live }))
  for (const [index, recorded] of (await findRecorded(pool, keys)).entries()) {
    const { id, payment, accountId } = rows[index] as Candidate
    if (recorded === undefined) continue
    const isDuplicate =
      recorded.accountId === accountId &&
      recorded.amountMinor === payment.amountMinor &&
      recorded.status === payment.status &&
      // This service settles what it recorded itself, so the settlement in the import is not compared.
      (recorded.imported !== true || recorded.settled === payment.settled)
    // The message does not reveal the owner of the recorded payment, which may be another business.
    const fault = differs('is recorded with another account, amount, status or settlement')
    results.set(id, isDuplicate ? DUPLICATE : rejected([fault]))
  }
  return results
}
