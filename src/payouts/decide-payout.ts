import type { PoolClient } from 'pg'
import { type AuditAction, appendAudits } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import { assert, Fault } from '../core/errors.ts'
import { createIsolatingBatcher } from '../postgres/batcher.ts'
import { inTransaction } from '../postgres/in-transaction.ts'
import { mayHaveBeenSent, readGeneration } from './find-anywhere.ts'
import {
  eventKindOf,
  NEVER_SEEN,
  type Payout,
  type PayoutStatus,
  RETURN_CHECKS_HOURS,
} from './payout.ts'
import { completePaidReturn } from './refund-transaction.ts'
import { type PayoutContext, requesterOf } from './reserve-payout.ts'
import { askBank } from './send-payouts.ts'
import { type Changing, changeLocked, findPayout, lockPayouts, type PayoutChange } from './store.ts'

interface Decision {
  readonly payoutId: string
  readonly note: string
}

/** How a decision changes a payout; undefined: it was made before. Throws a Fault if it may not be made. */
type Decide = (payout: Payout) => PayoutChange | undefined

/** A decision about one payout, and who made it. */
interface MadeDecision {
  readonly payoutId: string
  readonly action: AuditAction
  readonly actor: Actor
  readonly changeOf: Decide
}

/** What approving needs. */
export interface ApproveContext extends PayoutContext {
  /** Decides about a payout, together with others. @throws Fault */
  readonly approve: (decision: MadeDecision) => Promise<Payout>
}

/**
 * Approves a payout. The token, user or key that requested it may not.
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
        'Another person than the one who requested a payout has to approve it',
      )
    }
    if (!UNAPPROVED.has(payout.status) && payout.decidedBy === by) return undefined
    requireStatus(payout, ['PENDING_APPROVAL'])
    if (payout.expiresAtMs !== undefined && payout.expiresAtMs <= context.clock.now()) {
      throw new Fault('payout_not_pending', 'The time for the approval of the payout is over')
    }
    return {
      status: 'APPROVED',
      nextInMs: 0,
      step: said('approved', note),
      decidedBy: by,
      decisionNote: note,
    }
  }
  return context.approve({ payoutId, action: 'payout.approve', actor, changeOf })
}

/** Where a payout stands that is not approved, or no longer. */
const UNAPPROVED: ReadonlySet<PayoutStatus> = new Set([
  'PENDING_APPROVAL',
  'REJECTED',
  'CANCELLED',
  'EXPIRED',
])

/** Refuses the approval of a payout. @throws Fault not_found, payout_not_pending */
export function rejectPayout(
  context: PayoutContext,
  { payoutId, note }: Decision,
  actor: Actor,
): Promise<Payout> {
  return decide(context, payoutId, 'payout.reject', actor, (payout) => {
    if (payout.status === 'REJECTED') return undefined
    requireStatus(payout, ['PENDING_APPROVAL'])
    const decidedBy = requesterOf(actor)
    return { status: 'REJECTED', step: said('rejected', note), decidedBy, decisionNote: note }
  })
}

/**
 * Cancels a payout that was not sent. A key or portal link cancels only what one of them requested: the businesses of both
 * are that of the payout.
 *
 * @throws Fault not_found, payout_not_pending, permission_denied
 */
export function cancelPayout(
  context: PayoutContext,
  { payoutId, note }: Decision,
  actor: Actor,
): Promise<Payout> {
  return decide(context, payoutId, 'payout.cancel', actor, (payout) => {
    if (payout.status === 'CANCELLED') return undefined
    requireStatus(payout, ['PENDING_APPROVAL', 'APPROVED'])
    // One that is to be sent again may have been paid: the bank's books decide, not a cancellation.
    if (payout.submittedAtMs !== undefined) throw notPending(payout)
    if (isBusiness(requesterOf(actor)) && !isBusiness(payout.requestedBy)) {
      const who = payout.purpose === 'SETTLEMENT' ? 'A settlement' : 'An operator'
      throw new Fault('permission_denied', `${who} requested the payout: only operators cancel it`)
    }
    return { status: 'CANCELLED', step: said('cancelled', note) }
  })
}

/** Whether a requester is a business itself: by its key, or by a link to its portal. */
function isBusiness(requester: string): boolean {
  return /^(secret_key:|token:plk_)/.test(requester)
}

/** What an operator may decide about a payout, by what the books of the bank show. */
export type Resolution = 'MARK_PAID' | 'MARK_FAILED' | 'ASK_AGAIN' | 'RESEND' | 'MARK_RETURNED'

/**
 * Decides a payout whose result the bank has not stated, or records that a paid one was returned. The one who requested it
 * may not decide what makes its money available again.
 *
 * @throws Fault not_found, own_payout, payout_not_pending, resend_not_safe
 */
export async function resolvePayout(
  context: PayoutContext,
  request: Decision & { readonly decision: Resolution; readonly sessionId: string },
  actor: Actor,
): Promise<Payout> {
  const { decision, payoutId, note, sessionId } = request
  if (decision === 'RESEND') await requireNeverSeen(context, payoutId)
  const by = requesterOf(actor)
  const stated = { actor: by, decidedBy: by, decisionNote: note }
  const givesBack = decision === 'MARK_FAILED' || decision === 'MARK_RETURNED'
  return decide(context, payoutId, 'payout.resolve', actor, (payout) => {
    if (givesBack && payout.requestedBy === by) {
      const text = 'Another person than the requester has to decide what gives the money back'
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
          claimed: true,
        }
      case 'MARK_FAILED':
        requireStatus(payout, ['UNKNOWN', 'MANUAL_REVIEW'])
        return {
          ...stated,
          status: 'FAILED',
          step: said('an operator found it not paid', note),
          failureReason: 'operator',
          claimed: true,
        }
      case 'ASK_AGAIN':
        requireStatus(payout, ['UNKNOWN', 'MANUAL_REVIEW'])
        return {
          ...stated,
          status: 'UNKNOWN',
          step: said('an operator has the bank asked again', note),
          failureReason: '',
          nextInMs: 0,
          claimed: true,
        }
      case 'RESEND':
        requireStatus(payout, ['MANUAL_REVIEW'])
        if (payout.failureReason !== NEVER_SEEN) throw unsafe()
        return {
          ...stated,
          status: 'APPROVED',
          step: said('an operator has it sent again under the same reference', note),
          failureReason: '',
          nextInMs: 0,
          claimed: true,
        }
      case 'MARK_RETURNED':
        requireStatus(payout, ['PAID'])
        return {
          ...stated,
          status: 'RETURNED',
          step: said('an operator found it returned', note),
          claimed: true,
        }
    }
  })
}

/** Asks the bank once more before a payout is sent again. @throws Fault not_found, resend_not_safe */
async function requireNeverSeen(context: PayoutContext, payoutId: string): Promise<void> {
  const payout = await findPayout(context.database.durablePool, payoutId)
  if (payout === undefined) throw notFound()
  if (payout.status !== 'MANUAL_REVIEW' || payout.failureReason !== NEVER_SEEN) throw unsafe()
  const { kind } = await askBank(context, payout)
  if (kind !== 'not found') throw unsafe()
}

function unsafe(): Fault {
  const text =
    'The bank has not stated, after its consistency window, that it never saw the payout: sending it again could pay it twice'
  return new Fault('resend_not_safe', text)
}

/** Approvals that arrive while others are written are written together: the audit log takes one commit at a time. */
export function createApprove(context: PayoutContext): ApproveContext['approve'] {
  const approve = createIsolatingBatcher<MadeDecision, Payout | Fault>({
    async run(calls) {
      // Two decisions about one payout: the second is about what the first one left.
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

/** How many approvals are written together. */
const APPROVALS_MAX = 64

async function decide(
  context: PayoutContext,
  payoutId: string,
  action: AuditAction,
  actor: Actor,
  changeOf: Decide,
): Promise<Payout> {
  const [result] = await decideTogether(context, [{ payoutId, action, actor, changeOf }])
  return payoutOf(result)
}

/** @throws Fault */
function payoutOf(result: Payout | Fault | undefined): Payout {
  assert(result, 'each decision has a result')
  if (result instanceof Fault) throw result
  return result
}

/** Changes locked payouts, each another one, and records who did so, with their status before and after. */
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
    const [first, ...rest] = changed.map(({ before, after, decision: { actor, action } }) => {
      const { amountMinor } = after
      const details = { before: before.status, after: after.status, amountMinor: `${amountMinor}` }
      const change = {
        ...{ action, targetId: after.id, businessId: after.businessId },
        details: { ...details, note: after.decisionNote },
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

/** How a decision changes a locked payout; undefined: it was made before. @throws Fault if it may not be made */
async function decidedChange(
  client: PoolClient,
  payout: Payout,
  { changeOf, actor }: MadeDecision,
): Promise<PayoutChange | undefined> {
  const change = changeOf(payout)
  if (change === undefined) return undefined
  if (change.status === 'REJECTED' || change.status === 'CANCELLED') {
    await requireNotSent(client, payout)
  }
  const stated = { actor: requesterOf(actor), ...change }
  // The bank has stated that it never saw it: no bank is asked once more before it is sent.
  if (payout.status !== 'MANUAL_REVIEW' || change.status !== 'APPROVED') return stated
  const current = await readGeneration(client)
  if (current === undefined) throw unsafe()
  return { ...stated, generation: current.generation }
}

/** @throws Fault payout_not_pending (after a restore, until the banks have stated that they do not know it) */
async function requireNotSent(client: PoolClient, payout: Payout): Promise<void> {
  const current = await readGeneration(client)
  if (current !== undefined && !mayHaveBeenSent(payout, current)) return
  throw new Fault(
    'payout_not_pending',
    'The database was restored, and the banks are being asked whether the payout was sent before',
    { facts: { status: payout.status } },
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
