import { createHash } from 'node:crypto'
import type { Actor } from '../auth/caller.ts'
import { getBusiness } from '../businesses/get-business.ts'
import { Fault, type FieldFault, invalidFields } from '../core/errors.ts'
import { newId } from '../core/ids.ts'
import { formatAmount } from '../core/money.ts'
import { inTransaction, type Queryable } from '../postgres/in-transaction.ts'
import { readCurrentBalance } from '../settlement/get-balance.ts'
import { type Batch, type BatchItem, findBatchByReference } from './batch.ts'
import { readPolicies } from './change-policy.ts'
import { dutyOf, feeOf, limitFault, type PayoutPolicy } from './policy.ts'
import {
  type PayoutContext,
  requesterOf,
  requireNotPaused,
  SETTLEMENT_REFERENCE,
} from './reserve-payout.ts'
import { lagosDate } from './store.ts'

interface BatchRequest {
  readonly businessId: string
  readonly live: boolean
  readonly reference: string
  readonly items: readonly BatchItem[]
  readonly isValidatedOnly: boolean
}

/** The most faults of a batch that are returned. */
const FAULTS_MAX = 100

/**
 * Requests payouts as a batch. Nothing is stored unless all items are valid. Thousands of name enquiries take minutes, so
 * `createRequestItems` makes them in the background and then reserves each payout.
 *
 * @throws Fault not_found (the business), validation_failed, duplicate_reference, insufficient_balance, payouts_paused,
 * unavailable (after a restore, until the balance is known)
 */
export async function createBatch(
  context: PayoutContext,
  request: BatchRequest,
  actor: Pick<Actor, 'kind' | 'id'>,
): Promise<{ readonly batch: Batch; readonly replayed: boolean }> {
  const { database, clock, wakeItems } = context
  const { businessId, live, reference } = request
  const { name } = await getBusiness(database, businessId)
  const hash = hashOf(request.items)
  const original = await findBatchByReference(database.durablePool, request)
  if (original !== undefined) return replay(original, hash)
  const policies = await readPolicies(database.durablePool, businessId)
  await requireValid(context, request, [policies.own, policies.installation])
  await requireNotPaused(database.durablePool, businessId)
  await requireSum(context, request, policies.own)
  const nowMs = clock.now()
  const sumMinor = sumOf(request.items)
  const limits = [policies.own.approvalAboveMinor, policies.installation?.approvalAboveMinor]
  const limit = limits.find((each) => each !== undefined && each !== null && sumMinor > each)
  const batch: Batch = {
    id: request.isValidatedOnly ? '' : newId('pba', nowMs),
    businessId,
    live,
    reference,
    sumMinor,
    detailsHash: hash,
    count: request.items.length,
    requestedBy: requesterOf(actor),
    approvalReason:
      typeof limit === 'bigint' ? `a batch of more than ${formatAmount(limit)} naira` : '',
    createdAtMs: nowMs,
    pendingCount: request.items.length,
    refusedCount: 0,
    approvalCount: 0,
    approvalSumMinor: 0n,
    paidCount: 0,
    failedCount: 0,
  }
  if (request.isValidatedOnly) return { batch, replayed: false }
  const isNew = await insertBatch(context, batch, request.items, name)
  if (!isNew) {
    const first = await findBatchByReference(database.durablePool, request)
    if (first !== undefined) return replay(first, hash)
  }
  wakeItems()
  return { batch, replayed: false }
}

/** @throws Fault duplicate_reference */
function replay(batch: Batch, hash: string) {
  if (batch.detailsHash === hash) return { batch, replayed: true }
  const message = 'was already used with other items'
  throw new Fault('duplicate_reference', `The reference of the batch ${message}`, {
    fields: [{ field: 'reference', message }],
  })
}

function hashOf(items: readonly BatchItem[]): string {
  const rows = items.map((each) => [
    each.reference,
    `${each.amountMinor}`,
    each.bankCode,
    each.accountNumber,
    each.accountName,
    each.narration,
  ])
  return createHash('sha256').update(JSON.stringify(rows)).digest('hex')
}

function sumOf(items: readonly BatchItem[]): bigint {
  return items.reduce((sum, { amountMinor }) => sum + amountMinor, 0n)
}

/** Checks each item by itself and against the others. @throws Fault validation_failed */
async function requireValid(
  { institutions, database }: PayoutContext,
  { items, businessId, live }: BatchRequest,
  policies: readonly (PayoutPolicy | undefined)[],
): Promise<void> {
  const references = items.map(({ reference }) => reference)
  const used = await findUsed(database.durablePool, { businessId, live }, references)
  const faults: FieldFault[] = []
  const seen = new Set<string>()
  for (const [index, item] of items.entries()) {
    const at = `items[${index}]`
    const { reference, amountMinor } = item
    const fault = (field: string, message: string) =>
      faults.push({ field: `${at}.${field}`, message })
    // A payout that is requested alone has its reference trimmed.
    if (reference !== reference.trim()) fault('reference', 'must have no white space around it')
    else if (seen.has(reference)) fault('reference', 'is also used by another item')
    else if (used.has(reference)) fault('reference', 'was already used')
    else if (reference.startsWith(SETTLEMENT_REFERENCE))
      fault('reference', `must not begin with "${SETTLEMENT_REFERENCE}"`)
    seen.add(reference)
    const requested = { amountMinor, dayMinor: 0n, monthMinor: 0n }
    const limit = policies.flatMap((policy) => (policy && limitFault(policy, requested)) ?? [])[0]
    if (limit !== undefined) fault('amountMinor', limit)
    if (institutions.find(item.bankCode) === undefined)
      fault('beneficiary.bankCode', 'is no institution: see ListBanks')
    if (faults.length >= FAULTS_MAX) break
  }
  if (faults.length > 0) throw invalidFields(faults.slice(0, FAULTS_MAX))
}

/** Finds the references that are already used by payouts. */
async function findUsed(
  on: Queryable,
  { businessId, live }: { readonly businessId: string; readonly live: boolean },
  references: readonly string[],
): Promise<ReadonlySet<string>> {
  const { rows } = await on.query<{ reference: string }>(
    `select p.reference from unnest($3::text[]) r (reference)
      join payout p on p.business_id = $1 and p.live = $2 and p.reference = r.reference`,
    [businessId, live, references],
  )
  return new Set(rows.map(({ reference }) => reference))
}

/** Rejects a batch whose sum exceeds the balance. The balance is checked again when each payout is reserved. */
async function requireSum(
  { database, clock }: PayoutContext,
  { businessId, live, items }: BatchRequest,
  { fees, chargeDuty }: PayoutPolicy,
): Promise<void> {
  const day = lagosDate(clock.now())
  const neededMinor = items.reduce((sum, { amountMinor }) => {
    const duty = chargeDuty ? dutyOf(amountMinor, day) : 0n
    return sum + amountMinor + feeOf(fees, amountMinor) + duty
  }, 0n)
  const { availableMinor } = await readCurrentBalance(database.durablePool, { businessId, live })
  if (neededMinor <= availableMinor) return
  const message = `need ${formatAmount(neededMinor)} naira with fees and duty; ${formatAmount(availableMinor)} are available`
  throw new Fault('insufficient_balance', `The payouts ${message}`, {
    fields: [{ field: 'items', message }],
    facts: { needed_minor: `${neededMinor}`, has_minor: `${availableMinor}` },
  })
}

/** @returns false if a concurrent request with the same reference was stored first */
async function insertBatch(
  { database }: PayoutContext,
  batch: Batch,
  items: readonly BatchItem[],
  narration: string,
): Promise<boolean> {
  return inTransaction(database.durablePool, async (client) => {
    const { rowCount } = await client.query(
      `insert into payout_batch (id, business_id, live, reference, count, sum_minor, details_hash, requested_by,
          approval_reason, created_at)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) on conflict (business_id, live, reference) do nothing`,
      [
        batch.id,
        batch.businessId,
        batch.live,
        batch.reference,
        batch.count,
        batch.sumMinor,
        batch.detailsHash,
        batch.requestedBy,
        batch.approvalReason,
        new Date(batch.createdAtMs),
      ],
    )
    if (rowCount === 0) return false
    await client.query(
      `insert into payout_item (batch_id, number, reference, amount_minor, bank_code, account_number, account_name,
          narration, next_at)
        select $1, number - 1, reference, amount_minor, bank_code, account_number, account_name,
          coalesce(nullif(narration, ''), $8), now()
        from unnest($2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[])
          with ordinality as item (reference, amount_minor, bank_code, account_number, account_name, narration, number)`,
      [
        batch.id,
        items.map((item) => item.reference),
        items.map((item) => item.amountMinor),
        items.map((item) => item.bankCode),
        items.map((item) => item.accountNumber),
        items.map((item) => item.accountName),
        items.map((item) => item.narration),
        narration,
      ],
    )
    return true
  })
}
