import type { PoolClient } from 'pg'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import type { BankOf, ConnectorName } from '../banks/bank.ts'
import { assert, type FieldFault } from '../core/errors.ts'
import { isReference, newId } from '../core/ids.ts'
import type { Encrypter } from '../crypto/encryption.ts'
import { byteaArray, textArray, timestampArray } from '../postgres/binary-arrays.ts'
import { inTransaction, type Queryable } from '../postgres/in-transaction.ts'
import type { Runtime } from '../postgres/runtime.ts'
import {
  type AccountDetails,
  detailsText,
  identityContext,
  identityText,
  REFERENCE_IS_ASSIGNED,
} from './account.ts'
import { findHashed, withoutLoneKind } from './stored-details.ts'

/** An account that another provider opened, with the details that its business requested. */
export interface ImportedAccount extends AccountDetails {
  /** The business's own reference. */
  readonly reference: string
  /** The reference that the provider assigned. */
  readonly providerReference: string
  readonly accountNumber: string
  readonly accountName: string
  /** Undefined: now. */
  readonly openedAtMs: number | undefined
  /** Empty if the bank has none. */
  readonly bankAccountId: string
}

/** The outcome of one row of an import. */
export interface RowResult {
  readonly outcome: 'IMPORTED' | 'DUPLICATE' | 'REJECTED'
  /** Why it is rejected. */
  readonly faults: readonly FieldFault[]
}

/** A row of a call, with the faults of its fields. */
export interface ImportedRow {
  /** Undefined: its fields are not valid. */
  readonly account?: ImportedAccount
  readonly faults: readonly FieldFault[]
}

interface Dependencies {
  readonly bankOf: BankOf
  readonly encrypter: Encrypter
  /** Throws Fault not_found. */
  readonly aliasOf: (businessId: string) => Promise<string>
}

interface ImportRequest {
  readonly businessId: string
  readonly live: boolean
  readonly validateOnly: boolean
  readonly rows: readonly ImportedRow[]
}

/** A row whose fields are valid, with the values to store. */
interface Candidate {
  readonly id: string
  readonly account: ImportedAccount
  readonly connector: ConnectorName
  /** The requested details as a text. */
  readonly text: string
}

/**
 * Imports accounts as active and permanent. Each row has its own result, in order; a repeated row is a duplicate. One
 * statement inserts all rows, so concurrent calls do not import an account twice.
 *
 * Faults: not_found (the business).
 */
export async function importAccounts(
  runtime: Runtime,
  dependencies: Dependencies,
  request: ImportRequest,
  actor: Actor,
): Promise<readonly RowResult[]> {
  const { clock } = runtime
  const { durablePool } = runtime.database
  const { aliasOf } = dependencies
  await aliasOf(request.businessId)
  const nowMs = clock.now()
  const results = new Map<number, RowResult>()
  const repeatOf = new Map<number, number>()
  const candidates = new Map<number, Candidate>()
  const seen = new Map<string, number>()
  for (const [index, row] of request.rows.entries()) {
    const checked = checkRow(dependencies, request, row, nowMs)
    if ('faults' in checked) results.set(index, rejected(checked.faults))
    else {
      const earlier = compareInCall(seen, candidates, checked, index)
      if (earlier === undefined) candidates.set(index, checked)
      else if (typeof earlier === 'number') repeatOf.set(index, earlier)
      else results.set(index, rejected(earlier))
    }
  }
  const rows = [...candidates.values()]
  const inserted = request.validateOnly
    ? new Set<string>()
    : await inTransaction(durablePool, (client) =>
        insertAll(client, dependencies, request, rows, actor, nowMs),
      )
  const rest = rows.filter(({ id }) => !inserted.has(id))
  const found = await findConflicting(durablePool, request, rest)
  for (const [index, candidate] of candidates) {
    const outcome = inserted.has(candidate.id)
      ? IMPORTED
      : compareStored(dependencies.encrypter, candidate, found.get(candidate.id) ?? [], request)
    results.set(index, outcome)
  }
  for (const [index, earlier] of repeatOf) {
    const result = results.get(earlier)
    assert(result, 'an earlier row has a result')
    results.set(index, result.outcome === 'REJECTED' ? result : DUPLICATE)
  }
  return request.rows.map((_, index) => results.get(index) as RowResult)
}

export const IMPORTED: RowResult = { outcome: 'IMPORTED', faults: [] }

export const DUPLICATE: RowResult = { outcome: 'DUPLICATE', faults: [] }

export const rejected = (faults: readonly FieldFault[]): RowResult => ({
  outcome: 'REJECTED',
  faults,
})

const OPENED_FROM_MS = Date.UTC(2000, 0)

function checkRow(
  { bankOf }: Dependencies,
  { live }: ImportRequest,
  { account: requested, faults }: ImportedRow,
  nowMs: number,
): Candidate | { readonly faults: readonly FieldFault[] } {
  if (requested === undefined || faults.length > 0) return { faults }
  const account = withoutLoneKind(requested)
  const { bank, reference, openedAtMs } = account
  const further: FieldFault[] = []
  if (isReference(reference)) {
    further.push(REFERENCE_IS_ASSIGNED)
  }
  if (openedAtMs !== undefined && (openedAtMs < OPENED_FROM_MS || openedAtMs > nowMs)) {
    further.push({ field: 'openedAt', message: 'must be a time from 2000 to now' })
  }
  // The sandbox cannot confirm payments, and once the bank is connected, accounts of the sandbox are not credited.
  const served = bankOf({ live, bank })
  if (served === undefined) {
    const message = `is not connected here: set ${bank}=live in BANKS before the import`
    further.push({ field: 'bank', message })
  }
  if (served === undefined || further.length > 0) return { faults: further }
  const id = newId('acc', nowMs)
  return { id, account, connector: served.name, text: detailsText(account) }
}

/**
 * Compares a row with the earlier rows of its call.
 *
 * @returns the row that it repeats, the faults if it contradicts earlier rows, or undefined if it is new
 */
function compareInCall(
  seen: Map<string, number>,
  candidates: ReadonlyMap<number, Candidate>,
  candidate: Candidate,
  index: number,
): number | readonly FieldFault[] | undefined {
  const { account, text } = candidate
  const own = `own ${account.reference}`
  const provider = `provider ${account.providerReference}`
  const number = `number ${account.bank} ${account.accountNumber}`
  const first = seen.get(own)
  const same = first === undefined ? undefined : candidates.get(first)
  if (same !== undefined && same.text === text && isSame(same.account, account)) return first
  // Accounts are found by either reference, so each kind is compared with both.
  const fields = [
    ['reference', own, `provider ${account.reference}`],
    ['providerReference', provider, `own ${account.providerReference}`],
    ['accountNumber', number],
  ] as const
  const faults = fields.flatMap(([field, ...keys]) =>
    keys.every((key) => !seen.has(key))
      ? []
      : [{ field, message: 'repeats an earlier row with other details' }],
  )
  if (faults.length > 0) return faults
  for (const key of [own, provider, number]) seen.set(key, index)
  return undefined
}

/** Compares the fields that are not part of the requested details. */
function isSame(
  one: Pick<ImportedAccount, 'reference' | 'providerReference' | 'accountNumber' | 'accountName'>,
  other: Pick<ImportedAccount, 'reference' | 'providerReference' | 'accountNumber' | 'accountName'>,
): boolean {
  return (
    one.reference === other.reference &&
    one.providerReference === other.providerReference &&
    one.accountNumber === other.accountNumber &&
    one.accountName === other.accountName
  )
}

async function insertAll(
  client: PoolClient,
  { encrypter }: Dependencies,
  { businessId, live }: ImportRequest,
  rows: readonly Candidate[],
  actor: Actor,
  nowMs: number,
): Promise<ReadonlySet<string>> {
  if (rows.length === 0) return new Set()
  const accounts = rows.map(({ account }) => account)
  const text = (read: (account: ImportedAccount) => string | null) => textArray(accounts.map(read))
  const { rows: inserted } = await client.query<{ id: string }>(
    `insert into account (id, business_id, live, reference, merchant_reference, bank, connector, account_number,
        account_name, status, first_name, last_name, email, phone, id_type, id_number_encrypted, id_number_hash,
        details_hash, attempts, claimed_until, created_at, bank_account_id, imported_at)
      select id, $1, $2, reference, merchant_reference, bank, connector, account_number, account_name, 'ACTIVE',
        first_name, last_name, email, phone, id_type, id_number_encrypted, id_number_hash, details_hash, 0, $3,
        created_at, bank_account_id, $3
      from unnest($4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[],
        $12::text[], $13::text[], $14::text[], $15::text[], $16::bytea[], $17::bytea[], $18::bytea[],
        $19::timestamptz[], $20::text[])
        as r(id, reference, merchant_reference, bank, connector, account_number, account_name, first_name, last_name,
          email, phone, id_type, id_number_encrypted, id_number_hash, details_hash, created_at, bank_account_id)
      -- A reference must not name two accounts. \`offset 0\` keeps the planner on the index of each key.
      where not exists (select from account a where a.business_id = $1 and a.live = $2
          and a.reference = r.merchant_reference and a.merchant_reference <> r.merchant_reference offset 0)
        and not exists (select from account a where a.business_id = $1 and a.live = $2
          and a.merchant_reference = r.reference and a.reference <> r.reference offset 0)
      -- Every call inserts in the same order, to prevent deadlocks.
      order by merchant_reference
      on conflict do nothing returning id`,
    [
      businessId,
      live,
      new Date(nowMs),
      textArray(rows.map(({ id }) => id)),
      text(({ providerReference }) => providerReference),
      text(({ reference }) => reference),
      text(({ bank }) => bank),
      textArray(rows.map(({ connector }) => connector)),
      text(({ accountNumber }) => accountNumber),
      text(({ accountName }) => accountName),
      text(({ firstName }) => firstName),
      text(({ lastName }) => lastName),
      text(({ email }) => email),
      text(({ phone }) => phone),
      text(({ idType }) => idType ?? null),
      byteaArray(
        rows.map(({ id, account: { idNumber } }) =>
          idNumber ? encrypter.encrypt(idNumber, identityContext(id)) : null,
        ),
      ),
      byteaArray(
        accounts.map(({ idType, idNumber }) =>
          idNumber ? encrypter.fingerprint(identityText(idType, idNumber)) : null,
        ),
      ),
      byteaArray(rows.map((row) => encrypter.fingerprint(row.text))),
      timestampArray(accounts.map(({ openedAtMs }) => openedAtMs ?? nowMs)),
      text(({ bankAccountId }) => bankAccountId),
    ],
  )
  if (inserted.length > 0) {
    const details = { accounts: inserted.length, mode: live ? 'live' : 'test' }
    await appendAudit(client, actor, {
      action: 'account.import',
      targetId: businessId,
      businessId,
      details,
    })
  }
  return new Set(inserted.map(({ id }) => id))
}

/** A stored account that has a key of a row. */
interface Conflicting {
  /** The id of the row. */
  readonly row_id: string
  /** The field of the row with the key that they share. */
  readonly field: 'reference' | 'providerReference' | 'accountNumber'
  readonly reference: string
  readonly merchant_reference: string
  readonly account_number: string | null
  readonly account_name: string | null
  readonly details_hash: Buffer
}

/** Finds the stored accounts that have a reference or the number of a row, by the id of the row. */
async function findConflicting(
  on: Queryable,
  { businessId, live }: ImportRequest,
  rows: readonly Candidate[],
): Promise<ReadonlyMap<string, readonly Conflicting[]>> {
  if (rows.length === 0) return new Map()
  const columns = 'reference, merchant_reference, account_number, account_name, details_hash'
  const { rows: conflicting } = await on.query<Conflicting>(
    // `offset 0` keeps the planner on the index of each key.
    `select r.id as row_id, c.* from unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::text[])
        as r(id, own, provider, bank, number)
      cross join lateral (
        (select 'reference' as field, ${columns} from account a
          where a.business_id = $1 and a.live = $2 and a.merchant_reference = r.own offset 0)
        union all (select 'reference', ${columns} from account a where a.business_id = $1 and a.live = $2
          and a.reference = r.own and a.merchant_reference <> r.own offset 0)
        union all (select 'providerReference', ${columns} from account a where a.business_id = $1 and a.live = $2
          and a.merchant_reference = r.provider and a.reference <> r.provider offset 0)
        union all (select 'providerReference', ${columns} from account a where a.reference = r.provider offset 0)
        union all (select 'accountNumber', ${columns} from account a
          where a.account_number = r.number and a.bank = r.bank and a.live = $2 offset 0)
      ) c`,
    [
      businessId,
      live,
      textArray(rows.map(({ id }) => id)),
      textArray(rows.map(({ account }) => account.reference)),
      textArray(rows.map(({ account }) => account.providerReference)),
      textArray(rows.map(({ account }) => account.bank)),
      textArray(rows.map(({ account }) => account.accountNumber)),
    ],
  )
  return Map.groupBy(conflicting, (each) => each.row_id)
}

const FIELDS = ['reference', 'providerReference', 'accountNumber'] as const

const IN_USE: Readonly<Record<Conflicting['field'], string>> = {
  reference: 'belongs to another account of the business, or to this account with other details',
  // The messages do not reveal the owner, which may be another business.
  providerReference: 'is in use',
  accountNumber: 'is in use',
}

function compareStored(
  encrypter: Encrypter,
  { account }: Candidate,
  found: readonly Conflicting[],
  { validateOnly }: ImportRequest,
): RowResult {
  const own = found.find(
    ({ field, merchant_reference: reference }) =>
      field === 'reference' && reference === account.reference,
  )
  const hashed = own && findHashed(encrypter, account, own.details_hash)
  const isDuplicate =
    own !== undefined &&
    hashed !== undefined &&
    hashed.idNumber === account.idNumber &&
    isSame(account, {
      reference: own.merchant_reference,
      providerReference: own.reference,
      accountNumber: own.account_number ?? '',
      accountName: own.account_name ?? '',
    })
  if (isDuplicate) return DUPLICATE
  if (found.length === 0) {
    if (validateOnly) return IMPORTED
    // The reference belonged to an account that was being opened and that its bank has since refused.
    return rejected([{ field: 'reference', message: 'was in use until now; repeat the import' }])
  }
  const fields = FIELDS.filter((field) => found.some((each) => each.field === field))
  return rejected(fields.map((field) => ({ field, message: IN_USE[field] })))
}
