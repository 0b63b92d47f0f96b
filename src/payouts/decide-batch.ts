import type { PoolClient } from 'pg'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import { assert, Fault } from '../core/errors.ts'
import { inTransaction } from '../postgres/in-transaction.ts'
import { type Batch, findBatch } from './batch.ts'
import { mayBeSent } from './decide-payout.ts'
import { mayHaveBeenSent, readGeneration } from './find-anywhere.ts'
import type { Payout } from './payout.ts'
import { type PayoutContext, requesterOf } from './reserve-payout.ts'
import { changeLocked, PAYOUT_COLUMNS, type PayoutRow, toPayout } from './store.ts'

interface BatchDecision {
  readonly businessId: string
  readonly batchId: string
  readonly note: string
}

/** The most payouts that one statement decides. */
const PART_MAX = 250

/** A batch after a decision, with the number and sum of the decided payouts. */
interface DecidedBatch {
  readonly batch: Batch
  readonly count: number
  readonly sumMinor: bigint
}

/**
 * Approves all payouts of a batch that await approval, in one commit. The requester of the batch cannot approve it.
 *
 * @throws Fault not_found, own_payout, payout_not_pending
 */
export function approveBatch(
  context: PayoutContext,
  request: BatchDecision,
  actor: Actor,
): Promise<DecidedBatch> {
  return decide(context, request, 'payout.approve', actor, (batch) => {
    if (batch.requestedBy !== requesterOf(actor)) return
    const text = 'The requester of a batch cannot approve it: a second person has to'
    throw new Fault('own_payout', text)
  })
}

/**
 * Rejects all payouts of a batch that await approval, and all items that still wait for a name enquiry.
 *
 * @throws Fault not_found, payout_not_pending
 */
export function rejectBatch(
  context: PayoutContext,
  request: BatchDecision,
  actor: Actor,
): Promise<DecidedBatch> {
  return decide(context, request, 'payout.reject', actor, () => undefined)
}

/** @param require throws if the actor may not decide */
async function decide(
  { database, clock, count: countReached, onCommit, wake }: PayoutContext,
  { businessId, batchId, note }: BatchDecision,
  action: 'payout.approve' | 'payout.reject',
  actor: Actor,
  require: (batch: Batch) => void,
): Promise<DecidedBatch> {
  const [status, verb, next] =
    action === 'payout.approve'
      ? (['APPROVED', 'approved', { nextInMs: 0 }] as const)
      : (['REJECTED', 'rejected', {}] as const)
  const by = requesterOf(actor)
  const step = `${verb} with its batch${note === '' ? '' : `: ${note}`}`
  const { payouts, ...decided } = await inTransaction(database.durablePool, async (client) => {
    const before = await findBatch(client, { businessId, batchId })
    if (before === undefined) throw new Fault('not_found', 'There is no such batch')
    require(before)
    if (status === 'APPROVED' && before.pendingCount > 0) {
      const text = `${before.pendingCount} items still wait for a bank to state the name of their account`
      throw new Fault('payout_not_pending', text)
    }
    const isRejection = status === 'REJECTED'
    const generation = isRejection ? await readGeneration(client) : undefined
    if (isRejection && generation === undefined) throw mayBeSent('PENDING_APPROVAL')
    const items = isRejection ? await rejectItems(client, before, note) : NO_ITEMS
    const nowMs = clock.now()
    const pending = await lockPending(client, batchId)
    // Items are rejected even if the lost history may have sent payouts of the batch, so that they become no payouts.
    const isUnclear =
      generation !== undefined && pending.some((payout) => mayHaveBeenSent(payout, generation))
    const payouts = isUnclear ? [] : pending
    if (payouts.length + items.count === 0) {
      if (isUnclear) throw mayBeSent('PENDING_APPROVAL')
      throw new Fault('payout_not_pending', 'No payout of the batch awaits approval')
    }
    const change = { status, actor: by, decidedBy: by, decisionNote: note, step, ...next }
    // Each approval locks its beneficiary until the commit: all statements lock beneficiaries in this order.
    const ordered = payouts.toSorted((a, b) => (beneficiaryKey(a) < beneficiaryKey(b) ? -1 : 1))
    // Changed in parts, because encoding thousands of events at once would block the event loop for other calls.
    for (let at = 0; at < ordered.length; at += PART_MAX) {
      const part = ordered.slice(at, at + PART_MAX).map((before) => ({ before, change }))
      await changeLocked(client, part, nowMs)
    }
    const sumMinor = payouts.reduce((sum, { amountMinor }) => sum + amountMinor, items.sumMinor)
    const count = payouts.length + items.count
    await appendAudit(client, actor, {
      action,
      targetId: batchId,
      businessId,
      details: { payouts: count, sumMinor: `${sumMinor}`, note },
    })
    const batch = await findBatch(client, { businessId, batchId })
    assert(batch, 'a batch is never removed')
    return { batch, count, sumMinor, payouts }
  })
  for (const { live } of payouts) countReached({ status, live })
  if (status === 'APPROVED') wake()
  else onCommit()
  return decided
}

const NO_ITEMS = { count: 0, sumMinor: 0n }

function beneficiaryKey({ destination }: Payout): string {
  return `${destination.bankCode} ${destination.accountNumber}`
}

/**
 * Rejects the items of a batch that have no payout yet. An instance that is reserving items holds the lock of the balance,
 * so this waits for it.
 */
async function rejectItems(
  client: PoolClient,
  { id, businessId, live }: Batch,
  note: string,
): Promise<{ readonly count: number; readonly sumMinor: bigint }> {
  await client.query('select lock_settled($1, $2, false)', [businessId, live])
  const { rows } = await client.query<{ count: number; minor: string }>(
    `with rejected as (
        update payout_item set next_at = null, reason = 'rejected', detail = $2
        where batch_id = $1 and next_at is not null returning amount_minor
      )
      select count(*)::int as count, coalesce(sum(amount_minor), 0) as minor from rejected`,
    [id, note],
  )
  return { count: rows[0]?.count ?? 0, sumMinor: BigInt(rows[0]?.minor ?? 0) }
}

/** Locks the payouts of a batch that await approval and have not expired. */
async function lockPending(client: PoolClient, batchId: string): Promise<readonly Payout[]> {
  const { rows } = await client.query<PayoutRow>(
    `select ${PAYOUT_COLUMNS} from payout where batch_id = $1 and status = 'PENDING_APPROVAL'
        and expires_at > now() order by id for update`,
    [batchId],
  )
  return rows.map(toPayout)
}
