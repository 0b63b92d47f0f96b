import type { PoolClient } from 'pg'
import { type AuditAction, appendAudits } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import { assert, Fault } from '../core/errors.ts'
import { createIsolatingBatcher } from '../postgres/batcher.ts'
import { inTransaction } from '../postgres/in-transaction.ts'
import { findAnywhere, mayHaveBeenSent, readGeneration } from './find-anywhere.ts'
import {
  eventKindOf,
  isBusiness,
  NEVER_SEEN,
  type Payout,
  type PayoutStatus,
  READING_MS,
  RETURN_CHECKS_HOURS,
} from './payout.ts'
import { completePaidReturn } from './refund-transaction.ts'
import { type PayoutContext, requesterOf } from './reserve-payout.ts'
import { askBank, orderOf } from './send-payouts.ts'
import { type Changing, changeLocked, findPayout, lockPayouts, type PayoutChange } from './store.ts'

interface Decision {
  readonly payoutId: string
  readonly note: string
}

/** Returns how a decision changes a payout, or undefined if it was made before. Throws a Fault if it is not allowed. */
type Decide = (payout: Payout) => PayoutChange | undefined

/** A decision about one payout, with the actor who made it. */
interface MadeDecision extends Decision {
  readonly action: AuditAction
  readonly actor: Actor
  readonly changeOf: Decide
}

export interface ApproveContext extends PayoutContext {
  /** Decides a payout in one commit with other pending decisions. @throws Fault */
  readonly approve: (decision: MadeDecision) => Promise<Payout>
}

/**
 * Approves a payout. The token, user or key that requested the payout cannot approve it.
 *
 * @throws Fault not_found, own_payout, payout_not_pending
 */
export function approvePayout(
  context: ApproveContext,
  { payoutId, note }: Decision,
  actor: Actor,
): Promise<Payout> {
  const by = requesterOf(actor)
  const changeOf = (payout: Payout): PayoutChange | undefined => {
    if (payout.requestedBy === by) {
      throw new Fault(
        'own_payout',
        'The requester of a payout cannot approve it: a second person has to',
      )
    }
    if (!UNAPPROVED.has(payout.status) && payout.decidedBy === by) return undefined
    requireStatus(payout, ['PENDING_APPROVAL'])
    if (payout.expiresAtMs !== undefined && payout.expiresAtMs <= context.clock.now()) {
      throw new Fault('payout_not_pending', 'The payout was not approved in time')
    }
    return {
      status: 'APPROVED',
      nextInMs: 0,
      step: said('approved', note),
      decidedBy: by,
      decisionNote: note,
    }
  }
  return context.approve({ payoutId, note, action: 'payout.approve', actor, changeOf })
}

/** The statuses of a payout that was never approved, or whose approval no longer counts. */
const UNAPPROVED: ReadonlySet<PayoutStatus> = new Set([
  'PENDING_APPROVAL',
  'REJECTED',
  'CANCELLED',
  'EXPIRED',
])

/** Rejects a payout that awaits approval. @throws Fault not_found, payout_not_pending */
export function rejectPayout(
  context: PayoutContext,
  { payoutId, note }: Decision,
  actor: Actor,
): Promise<Payout> {
  return decide(context, { payoutId, note }, 'payout.reject', actor, (payout) => {
    if (payout.status === 'REJECTED') return undefined
    requireStatus(payout, ['PENDING_APPROVAL'])
    const decidedBy = requesterOf(actor)
    return { status: 'REJECTED', step: said('rejected', note), decidedBy, decisionNote: note }
  })
}

/**
 * Cancels a payout that was not sent. A secret key or portal link can cancel only payouts that a key or portal link
 * requested; the caller has checked that it belongs to the business of the payout.
 *
 * @throws Fault not_found, payout_not_pending, permission_denied
 */
export function cancelPayout(
  context: PayoutContext,
  { payoutId, note }: Decision,
  actor: Actor,
): Promise<Payout> {
  return decide(context, { payoutId, note }, 'payout.cancel', actor, (payout) => {
    if (payout.status === 'CANCELLED') return undefined
    requireStatus(payout, ['PENDING_APPROVAL', 'APPROVED'])
    // A payout that is to be sent again may already be paid, so it cannot be cancelled.
    if (payout.submittedAtMs !== undefined) throw notPending(payout)
    if (isBusiness(requesterOf(actor)) && !isBusiness(payout.requestedBy)) {
      const who = payout.purpose === 'SETTLEMENT' ? 'A settlement' : 'An operator'
      throw new Fault('permission_denied', `${who} requested the payout: only operators cancel it`)
    }
    return { status: 'CANCELLED', step: said('cancelled', note) }
  })
}

/** What an operator can decide about a payout after looking at the books of the bank. */
type Resolution = 'MARK_PAID' | 'MARK_FAILED' | 'ASK_AGAIN' | 'RESEND' | 'MARK_RETURNED'

/**
 * Decides a payout whose result the bank has not stated, or records that a paid payout was returned. The requester cannot
 * make the decisions that release the money (MARK_FAILED and MARK_RETURNED).
 *
 * @throws Fault not_found, own_payout, payout_not_pending, resend_not_safe, unavailable
 */
export async function resolvePayout(
  context: PayoutContext,
  request: Decision & { readonly decision: Resolution; readonly sessionId: string },
  actor: Actor,
): Promise<Payout> {
  const { decision, payoutId, note, sessionId } = request
  if (decision === 'RESEND') await requireNeverSeen(context, payoutId)
  const by = requesterOf(actor)
  const stated = { decidedBy: by, decisionNote: note, claimed: true as const }
  const givesBack = decision === 'MARK_FAILED' || decision === 'MARK_RETURNED'
  return decide(context, { payoutId, note }, 'payout.resolve', actor, (payout) => {
    if (givesBack && payout.requestedBy === by) {
      const text = 'The requester cannot give the money back: a second person has to'
      throw new Fault('own_payout', text)
    }
    switch (decision) {
      case 'MARK_PAID':
        requireStatus(payout, ['UNKNOWN', 'MANUAL_REVIEW'])
        return {
          ...stated,
          status: 'PAID',
          step: said('an operator found it paid', note),
          sessionId: sessionId || payout.sessionId,
          failureReason: '',
          nextInMs: RETURN_CHECKS_HOURS[0] * 3_600_000,
        }
      case 'MARK_FAILED':
        requireStatus(payout, ['UNKNOWN', 'MANUAL_REVIEW'])
        return {
          ...stated,
          status: 'FAILED',
          step: said('an operator found it not paid', note),
          failureReason: 'operator',
        }
      case 'ASK_AGAIN':
        // One that is to be sent again may wait for its bank for good.
        if (payout.status !== 'APPROVED' || payout.submittedAtMs === undefined) {
          requireStatus(payout, ['UNKNOWN', 'MANUAL_REVIEW'])
        }
        return {
          ...stated,
          status: 'UNKNOWN',
          step: said('an operator has the bank asked again', note),
          attempts: 0,
          failureReason: '',
          nextInMs: 0,
        }
      case 'RESEND':
        requireStatus(payout, ['MANUAL_REVIEW'])
        if (payout.failureReason !== NEVER_SEEN) throw unsafe()
        // After a restore this copy may not have its approval.
        if (payout.approvalReason !== '' && payout.requestedBy === by) {
          const text = 'Another person than the requester has to have it sent: it needs an approval'
          throw new Fault('own_payout', text)
        }
        return {
          ...stated,
          status: 'APPROVED',
          step: said('an operator has it sent again under the same reference', note),
          attempts: 0,
          failureReason: '',
          nextInMs: 0,
        }
      case 'MARK_RETURNED':
        requireStatus(payout, ['PAID'])
        return {
          ...stated,
          status: 'RETURNED',
          step: said('an operator found it returned', note),
        }
    }
  })
}

/**
 * Asks the bank once more before a payout is sent again, or all banks if a restore left unclear which one may have it.
 *
 * @throws Fault not_found, resend_not_safe, unavailable
 */
async function requireNeverSeen(context: PayoutContext, payoutId: string): Promise<void> {
  const payout = await findPayout(context.database.durablePool, payoutId)
  if (payout === undefined) throw notFound()
  if (payout.status !== 'MANUAL_REVIEW' || payout.failureReason !== NEVER_SEEN) throw unsafe()
  const generation = await readGeneration(context.database.durablePool)
  if (generation === undefined) throw unsafe()
  const found =
    payout.generation === 0
      ? await findAnywhere(context, payout, orderOf(payout), generation)
      : await askBank(context, payout, generation)
  const isReading =
    (found.kind === 'unknown' && found.isReading) ||
    (found.kind === 'unclear' && found.nextInMs === READING_MS)
  if (isReading) {
    const text = 'The list of the bank is still being read; repeat the request'
    throw new Fault('unavailable', text, { retryAfterSeconds: READING_MS / 1_000 })
  }
  if (found.kind !== 'not found' && found.kind !== 'never sent') throw unsafe()
}

function unsafe(): Fault {
  const text =
    'The bank has not stated, after its consistency window, that it never saw the payout: sending it again could pay it twice'
  return new Fault('resend_not_safe', text)
}

/** Batches approvals that arrive during a commit into the next one: the audit log allows one commit at a time. */
export function createApprove(context: PayoutContext): ApproveContext['approve'] {
  const approve = createIsolatingBatcher<MadeDecision, Payout | Fault>({
    async run(calls) {
      // Decisions about the same payout run in turns, so that the second sees the result of the first.
      const ofPayouts = [...Map.groupBy(calls, ({ item }) => item.payoutId).values()]
      for (let turn = 0; ofPayouts.some((group) => group.length > turn); turn++) {
        const part = ofPayouts.flatMap((group) => group[turn] ?? [])
        const decided = await decideTogether(
          context,
          part.map(({ item }) => item),
        )
        for (const [at, call] of part.entries()) call.result = decided[at]
      }
    },
    itemsMax: APPROVALS_MAX,
    batchesMax: 1,
    queueMax: 10 * APPROVALS_MAX,
  })
  return async (decision) => payoutOf(await approve(decision))
}

/** The most approvals in one commit. */
const APPROVALS_MAX = 64

async function decide(
  context: PayoutContext,
  made: Decision,
  action: AuditAction,
  actor: Actor,
  changeOf: Decide,
): Promise<Payout> {
  const [result] = await decideTogether(context, [{ ...made, action, actor, changeOf }])
  return payoutOf(result)
}

/** @throws Fault */
function payoutOf(result: Payout | Fault | undefined): Payout {
  assert(result, 'each decision has a result')
  if (result instanceof Fault) throw result
  return result
}

/** Locks and changes payouts, one decision for each, and audits who decided, with the status before and after. */
async function decideTogether(
  { database, clock, count, onCommit, wake }: PayoutContext,
  decisions: readonly MadeDecision[],
): Promise<readonly (Payout | Fault)[]> {
  const { results, changed } = await inTransaction(database.durablePool, async (client) => {
    const ids = decisions.map(({ payoutId }) => payoutId)
    const payouts = await lockPayouts(client, ids)
    const results: (Payout | Fault)[] = []
    const changes: (Changing & { readonly decision: MadeDecision; readonly at: number })[] = []
    for (const [at, decision] of decisions.entries()) {
      const before = payouts.get(decision.payoutId)
      try {
        if (before === undefined) throw notFound()
        const change = await decidedChange(client, before, decision)
        if (change !== undefined) changes.push({ before, change, decision, at })
        results.push(before)
      } catch (error) {
        if (!(error instanceof Fault)) throw error
        results.push(error)
      }
    }
    const afters = await changeLocked(client, changes, clock.now())
    const changed = changes.map((each, index) => ({ ...each, after: afters[index] as Payout }))
    for (const { at, after, decision } of changed) {
      results[at] = after
      await completePaidReturn(client, after, decision.actor, clock.now())
    }
    const [first, ...rest] = changed.map(({ before, after, decision: { actor, action, note } }) => {
      const { amountMinor } = after
      const details = { before: before.status, after: after.status, amountMinor: `${amountMinor}` }
      const change = {
        action,
        targetId: after.id,
        businessId: after.businessId,
        details: { ...details, note },
      }
      return { actor, change }
    })
    if (first !== undefined) await appendAudits(client, [first, ...rest])
    return { results, changed }
  })
  const moved = changed.filter(({ before, after }) => after.status !== before.status)
  for (const { after } of moved) count(after)
  if (moved.some(({ after }) => eventKindOf(after.purpose, after.status) !== undefined)) onCommit()
  if (changed.some(({ after }) => after.nextAtMs !== undefined)) wake()
  return results
}

/** Returns how a decision changes a locked payout, or undefined if it was made before. @throws Fault if not allowed */
async function decidedChange(
  client: PoolClient,
  payout: Payout,
  { changeOf, actor }: MadeDecision,
): Promise<PayoutChange | undefined> {
  const change = changeOf(payout)
  if (change === undefined) return undefined
  if (change.status === 'REJECTED' || change.status === 'CANCELLED') {
    const current = await readGeneration(client)
    if (current === undefined || mayHaveBeenSent(payout, current)) throw mayBeSent(payout.status)
  }
  const stated = { actor: requesterOf(actor), ...change }
  // The bank has stated that it never saw the payout, so sending it again does not ask all banks first.
  if (payout.status !== 'MANUAL_REVIEW' || change.status !== 'APPROVED') return stated
  const current = await readGeneration(client)
  if (current === undefined) throw unsafe()
  return { ...stated, generation: current.generation }
}

/** The fault of a rejection or cancellation after a restore, until all banks have stated that they do not know the payout. */
export function mayBeSent(status: PayoutStatus): Fault {
  return new Fault(
    'payout_not_pending',
    'The database was restored: the banks are being asked whether the payout was already sent',
    { facts: { status } },
  )
}

function said(text: string, note: string): string {
  return note === '' ? text : `${text}: ${note}`
}

/** @throws Fault payout_not_pending */
function requireStatus(payout: Payout, allowed: readonly PayoutStatus[]): void {
  if (!allowed.includes(payout.status)) throw notPending(payout)
}

function notPending({ status }: Payout): Fault {
  return new Fault('payout_not_pending', `The payout is ${status}, which does not allow it`, {
    facts: { status },
  })
}

function notFound(): Fault {
  return new Fault('not_found', 'There is no such payout')
}
