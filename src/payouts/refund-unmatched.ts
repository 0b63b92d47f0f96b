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
import { repeatReason } from './find-anywhere.ts'
import { isFinal, type Payout } from './payout.ts'
import { recipientReason, resolveRecipient } from './refund-transaction.ts'
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
  /** The account that gets the money instead of the payer, after an approval; undefined: the payer. */
  readonly account: RequestedAccount | undefined
}

/** The money was never credited to a business, so only the rules of the installation apply. */
const NO_BUSINESS = ''

/**
 * Returns an unmatched payment by a payout of its whole amount to its payer, or to another account if a second person
 * approves. The database ensures that the payment can be neither assigned nor returned again while the payout is in
 * progress or once it is paid.
 *
 * A repeated request for the same account returns the payout that is in progress or paid. The reference is derived from the
 * session id and the number of failed returns. If a restore loses the payout and the request is repeated, the new payout
 * finds the transfer that the bank already knows. The restore may also have lost failed returns, so that the bank knows it by
 * another number: until a day after it, returns need an approval.
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
  const approval =
    recipientReason('return', recipient, resolved) || (await repeatReason(database.durablePool))
  const policies = await readPolicies(database.durablePool, NO_BUSINESS)
  const result = await semaphore(() =>
    inTransaction(database.durablePool, async (client) => {
      // The money is in no balance. The lock serializes all returns, because the rules limit their sums.
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
        approval,
        refundedSessionId: payment.sessionId,
        unmatchedPaymentId: arrived.id,
        unmatchedBank: payment.bank,
        amountField: 'unmatchedPaymentId',
        reason: request.reason,
      }
      const payout = await reserveLocked(context, client, reservation, policies)
      const reportIds = reports.map(({ id }) => id)
      const began = { payoutId: payout.id, note: request.reason, nowMs: payout.createdAtMs }
      await beginReturn(client, reportIds, began)
      await appendAudit(client, actor, {
        action: 'unmatched_payment.refund',
        targetId: unmatchedPaymentId,
        details: {
          payoutId: payout.id,
          amountMinor: `${payout.amountMinor}`,
          note: request.reason,
        },
      })
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

/** @returns the report which states that the money arrived. @throws Fault payment_resolved, not_refundable */
async function requireReturnable(
  client: PoolClient,
  payment: StoredUnmatched,
  reports: readonly StoredUnmatched[],
): Promise<StoredUnmatched> {
  if (reports.length === 0) throw paymentResolved('The payment is already resolved')
  if (await isSessionTaken(client, payment)) {
    throw paymentResolved('The session of the payment is already recorded, assigned or returned')
  }
  const arrived = reports.find(({ status }) => status === 'SUCCESS')
  if (arrived === undefined) {
    throw new Fault('not_refundable', 'The bank has not reported that the money arrived')
  }
  return arrived
}

/** The payout that returns the payment of a session, in progress or paid, and the number of all payouts made for that. */
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
    `The payout ${current.id} already returns the payment, with another amount or to another account`,
  )
}
