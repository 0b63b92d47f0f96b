import type { PoolClient } from 'pg'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import type { BankCode } from '../banks/bank.ts'
import { Fault } from '../core/errors.ts'
import { inTransaction } from '../postgres/in-transaction.ts'
import { getUnmatched, paymentResolved } from '../transactions/resolve-unmatched.ts'
import type { StoredUnmatched } from '../transactions/transaction.ts'
import {
  beginReturn,
  isSessionTaken,
  lockOpenReports,
  lockReported,
} from '../transactions/unmatched-store.ts'
import { readPolicies } from './change-policy.ts'
import { isFinal, type Payout } from './payout.ts'
import { resolveRecipient } from './refund-transaction.ts'
import {
  lockBalance,
  NO_ORIGIN,
  type PayoutContext,
  type Reservation,
  requesterOf,
  reserveLocked,
} from './reserve-payout.ts'
import type { RequestedAccount, ResolvedAccount } from './resolve-name.ts'
import { PAYOUT_COLUMNS, type PayoutRow, toPayout } from './store.ts'

/** A request to return an unmatched payment. */
export interface RefundUnmatched {
  readonly unmatchedPaymentId: string
  readonly reason: string
  /** Who gets it in place of the payer, after an approval; undefined: the payer. */
  readonly account: RequestedAccount | undefined
}

/** The money was never credited to a business: only the rules of the installation hold. */
const NO_BUSINESS = ''

/**
 * Returns an unmatched payment by a payout of the whole of it, to its payer, or to another account if a second person
 * approves. While the payout is in progress, and once it is paid, the payment can be neither assigned nor returned again;
 * the database enforces that.
 *
 * A repeat to the same account returns the payout that is in progress or paid. The reference follows from the session and
 * from how many payouts did not return it: a request that is repeated after its payout was lost in a restore leads to the
 * transfer that the bank knows.
 *
 * @throws Fault not_found, not_refundable, payment_resolved, validation_failed, name_mismatch, bank_unavailable, unavailable
 */
export async function refundUnmatched(
  context: PayoutContext,
  request: RefundUnmatched,
  actor: Actor,
): Promise<{ readonly payout: Payout; readonly replayed: boolean }> {
  const { database, semaphore, clock, onCommit, count, wake } = context
  const { account, unmatchedPaymentId } = request
  const payment = await getUnmatched(database.durablePool, unmatchedPaymentId)
  const owner = { businessId: NO_BUSINESS, live: true }
  const recipient = { payer: payment.payer, account, owner }
  const resolved = await resolveRecipient(context, recipient, clock.now())
  const policies = await readPolicies(database.durablePool, NO_BUSINESS)
  const result = await semaphore(() =>
    inTransaction(database.durablePool, async (client) => {
      // No balance has the money. The lock orders all returns, as the rules are about their sums.
      await lockBalance(client, owner, policies)
      await lockReported(client, [payment])
      const reports = await lockOpenReports(client, unmatchedPaymentId)
      const returns = await findReturns(client, payment)
      if (returns.current !== undefined) return replay(returns.current, payment, resolved)
      const arrived = await requireReturnable(client, payment, reports)
      const attempt = `return:${payment.bank}:${payment.sessionId}:${returns.count + 1}`
      const reservation: Reservation = {
        ...NO_ORIGIN,
        ...owner,
        reference: attempt,
        purpose: 'REFUND',
        source: 'unmatched',
        amountMinor: arrived.amountMinor,
        resolved,
        narration: `Return ${payment.sessionId}`.slice(0, 100),
        requestedBy: requesterOf(actor),
        approval: account === undefined ? '' : 'a return to another account than the payer’s',
        isCharged: false,
        refundedSessionId: payment.sessionId,
        unmatchedPaymentId: arrived.id,
        unmatchedBank: payment.bank,
        amountField: 'unmatchedPaymentId',
      }
      const payout = await reserveLocked(context, client, reservation, policies)
      const reportIds = reports.map(({ id }) => id)
      const began = { payoutId: payout.id, note: request.reason, nowMs: payout.createdAtMs }
      await beginReturn(client, reportIds, began)
      await auditReturn(client, payout, request, actor)
      return { payout, replayed: false }
    }),
  )
  if (!result.replayed) {
    count(result.payout)
    onCommit()
    wake()
  }
  return result
}

/** @returns the report that states that the money arrived. @throws Fault payment_resolved, not_refundable */
async function requireReturnable(
  client: PoolClient,
  payment: StoredUnmatched,
  reports: readonly StoredUnmatched[],
): Promise<StoredUnmatched> {
  if (reports.length === 0) throw paymentResolved('The payment was resolved before')
  if (await isSessionTaken(client, payment)) {
    throw paymentResolved('The session of the payment is already recorded, assigned or returned')
  }
  const arrived = reports.find(({ status }) => status === 'SUCCESS')
  if (arrived === undefined) {
    throw new Fault('not_refundable', 'The bank has not reported that the money arrived')
  }
  return arrived
}

/** The payouts of a session that returned its payment, or were to: the one in progress or paid, and how many were not. */
async function findReturns(
  client: PoolClient,
  { bank, sessionId }: { readonly bank: BankCode; readonly sessionId: string },
): Promise<{ readonly current: Payout | undefined; readonly count: number }> {
  const { rows } = await client.query<PayoutRow>(
    `select ${PAYOUT_COLUMNS} from payout
      where refunded_session_id = $1 and unmatched_bank = $2 and unmatched_payment_id is not null order by id`,
    [sessionId, bank],
  )
  const current = rows.find(({ status }) => status === 'PAID' || !isFinal(status))
  return { current: current && toPayout(current), count: rows.length }
}

/** @throws Fault payment_resolved */
function replay(
  current: Payout,
  { amountMinor }: StoredUnmatched,
  { destination }: ResolvedAccount,
): { readonly payout: Payout; readonly replayed: true } {
  const isSame =
    current.amountMinor === amountMinor &&
    current.destination.bankCode === destination.bankCode &&
    current.destination.accountNumber === destination.accountNumber
  if (isSame) return { payout: current, replayed: true }
  throw paymentResolved(
    `The payout ${current.id} returns it, as another amount or to another account`,
  )
}

async function auditReturn(
  client: PoolClient,
  { id, amountMinor }: Payout,
  { unmatchedPaymentId, reason }: RefundUnmatched,
  actor: Actor,
): Promise<void> {
  await appendAudit(client, actor, {
    action: 'unmatched_payment.refund',
    targetId: unmatchedPaymentId,
    details: { payoutId: id, amountMinor: `${amountMinor}`, note: reason },
  })
}
