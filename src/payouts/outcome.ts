import { plainText } from '../banks/bank-fields.ts'
import type { FoundTransfer, SendResult, TransferState } from '../banks/transfer.ts'
import { HOUR_MS, MINUTE_MS } from '../core/durations.ts'
import type { Runtime } from '../postgres/runtime.ts'
import type { FoundAnywhere, Generation } from './find-anywhere.ts'
import {
  askAgainMs,
  NEVER_SEEN,
  type Payout,
  READING_MS,
  RETURN_CHECKS_HOURS,
  RETURN_CHECKS_MS_MAX,
  UNCLEAR_MS_MAX,
} from './payout.ts'
import { SENT_BEFORE } from './route-payout.ts'
import type { PayoutChange } from './store.ts'

const DETAIL_MAX = 500

/** The longest wait before a payout that was certainly not sent is tried again. */
const NOT_SENT_MS_MAX = 5 * MINUTE_MS

/** The changes of a payout that may have been sent before the database was restored, by what all banks know about it. */
export function afterFindingAnywhere(
  payout: Payout,
  found: FoundAnywhere,
  { generation }: Generation,
): readonly PayoutChange[] {
  const { status, attempts } = payout
  if (found.kind === 'unclear') {
    const detail = `the banks are asked whether it was sent before the database was restored or failed over: ${found.cause}`
    // The wait for a list or a window is no attempt that failed.
    if (found.nextInMs !== undefined)
      return [{ status, attempts, nextInMs: found.nextInMs, detail }]
    return [{ status, attempts: attempts + 1, nextInMs: askAgainMs(attempts), detail }]
  }
  if (found.kind === 'never sent') {
    const step =
      'no bank knows it, so it was not sent before the database was restored or failed over'
    // The bank may still execute the call that was in progress.
    if (status === 'SUBMITTING') {
      return [{ status: 'UNKNOWN', generation, attempts: 0, nextInMs: 0, step, detail: step }]
    }
    // A payout that awaits approval becomes due again when it expires.
    const next = status === 'APPROVED' ? { nextInMs: 0 } : {}
    return [{ status, generation, attempts: 0, step, detail: '', ...next }]
  }
  const { bank, state } = found
  const step =
    state.kind === 'unknown'
      ? `${bank} has not stated for a day whether it was sent before the database was restored or failed over`
      : `${bank} knows it: it was sent before the database was restored or failed over`
  const approved = { status: 'APPROVED', nextInMs: 0, step } as const
  const sent = {
    status: 'SUBMITTING',
    submitted: true,
    bank,
    step,
    nextInMs: 0,
    // Another bank may have it, so all are asked before it is sent again.
    generation: state.kind === 'unknown' ? 0 : generation,
  } as const
  const changes = [sent, ...afterSending(payout, state)]
  return status === 'PENDING_APPROVAL' ? [approved, ...changes] : changes
}

/**
 * The detail of an approved payout that waits. If nothing was sent the last time, it begins with the cause, so that the history
 * does not repeat a cause that persists.
 */
export function waitingDetail({ attempts, detail }: Payout, waits: string): string {
  return attempts > 0 ? `${causeIn(detail)}; ${waits}` : waits
}

function causeIn(detail: string): string {
  return detail.replace(/; waits: .*/s, '')
}

/** The changes of a payout after it was sent. There are two if it was paid and returned. */
export function afterSending(payout: Payout, result: SendResult): readonly PayoutChange[] {
  if (result.kind === 'not sent') {
    const cause = plainText(`${payout.bank}: ${result.cause}`, DETAIL_MAX)
    return [
      {
        status: 'APPROVED',
        // A payout that is sent again stays with its bank.
        ...(payout.routing !== SENT_BEFORE && { submitted: false }),
        nextInMs: Math.min(askAgainMs(payout.attempts), NOT_SENT_MS_MAX),
        attempts: payout.attempts + 1,
        // A cause that persists is one step of the history.
        ...(cause !== causeIn(payout.detail) && { step: `nothing was sent: ${cause}` }),
        detail: cause,
      },
    ]
  }
  // The refusal of a resend says nothing about the first transfer: the bank is asked for the result.
  const isRefusedAgain = result.kind === 'failed' && payout.routing === SENT_BEFORE
  const stated = isRefusedAgain ? undefined : afterStatement(result)
  if (stated !== undefined) return stated
  const cause = causeOf(result)
  const text =
    result.kind === 'pending' ? `the bank accepted it: ${cause}` : `the result is unknown: ${cause}`
  return [{ status: 'UNKNOWN', attempts: 0, nextInMs: askAgainMs(0), step: text, detail: cause }]
}

/** The changes that follow from a final statement of the bank; undefined: the statement is not final. */
function afterStatement(state: TransferState): readonly PayoutChange[] | undefined {
  const paid = (sessionId: string): PayoutChange => ({
    status: 'PAID',
    nextInMs: RETURN_CHECKS_HOURS[0] * HOUR_MS,
    step: 'the bank paid it',
    detail: '',
    failureReason: '',
    ...(sessionId !== '' && { sessionId: plainText(sessionId, 64) }),
  })
  switch (state.kind) {
    case 'paid':
      return [paid(state.sessionId)]
    case 'failed': {
      const cause = plainText(state.cause, DETAIL_MAX)
      const step = `the bank did not pay it: ${cause}`
      return [{ status: 'FAILED', step, detail: cause, failureReason: state.reason }]
    }
    case 'returned':
      return [paid(''), returned(state.cause)]
    default:
      return undefined
  }
}

function causeOf(state: TransferState | FoundTransfer): string {
  return 'cause' in state ? plainText(state.cause, DETAIL_MAX) : ''
}

function returned(text: string): PayoutChange {
  const cause = plainText(text, DETAIL_MAX)
  return { status: 'RETURNED', step: `sent back: ${cause}`, detail: cause }
}

/** The changes of a payout after its bank was asked. */
export function afterAsking(
  { clock, log }: Runtime,
  payout: Payout,
  found: FoundTransfer,
): readonly PayoutChange[] {
  const { status, attempts } = payout
  if (found.kind === 'unknown' && found.isReading) return [{ status, nextInMs: READING_MS }]
  if (status === 'PAID') {
    if (found.kind === 'returned') return [returned(found.cause)]
    if (found.kind === 'failed' || found.kind === 'not found') {
      log.error(
        { payoutId: payout.id, cause: found.cause },
        'the bank contradicts that a payout was paid: see inflow payout get',
      )
      const what = found.kind === 'failed' ? 'failed' : 'is not known'
      const text = `the bank states now that it ${what}: ${plainText(found.cause, DETAIL_MAX)}`
      return [{ status, step: text, detail: text, ...nextCheck(payout, clock.now()) }]
    }
    const isAnswered = found.kind !== 'unknown'
    const next = nextCheck(payout, clock.now(), isAnswered)
    if (isAnswered || next.nextInMs !== undefined) return [{ status, ...next }]
    log.error(
      { payoutId: payout.id, bank: payout.bank, cause: causeOf(found) },
      'the bank did not state whether a paid payout came back: compare its statement',
    )
    const text = `the bank did not state whether it came back: ${causeOf(found)}`
    return [{ status, step: text, detail: text, ...next }]
  }
  // The failed transfer may be the second one, and the first one may have been paid.
  const isOneOfTwo = found.kind === 'failed' && payout.routing === SENT_BEFORE
  const stated = found.kind === 'not found' || isOneOfTwo ? undefined : afterStatement(found)
  if (stated !== undefined) return stated
  const cause = causeOf(found)
  if (found.kind === 'not found') {
    const step = `the bank states that it never saw it: ${cause}`
    const isKnown = status === 'MANUAL_REVIEW' && payout.failureReason === NEVER_SEEN
    const failureReason = NEVER_SEEN
    const change = {
      status: 'MANUAL_REVIEW',
      nextInMs: HOUR_MS,
      detail: cause,
      failureReason,
    } as const
    return [isKnown ? change : { ...change, step }]
  }
  if (status === 'MANUAL_REVIEW')
    return [{ status, nextInMs: HOUR_MS, detail: cause, failureReason: '' }]
  if (isOneOfTwo) {
    const step = `it was sent again, and the bank states a failure: ${cause}`
    return [{ status: 'MANUAL_REVIEW', nextInMs: HOUR_MS, step, detail: cause }]
  }
  const sinceMs = clock.now() - (payout.submittedAtMs ?? payout.createdAtMs)
  if (sinceMs > UNCLEAR_MS_MAX) {
    const step = `the bank states no result for a day: ${cause}`
    return [{ status: 'MANUAL_REVIEW', nextInMs: HOUR_MS, step, detail: cause }]
  }
  return [{ status, attempts: attempts + 1, nextInMs: askAgainMs(attempts + 1), detail: cause }]
}

/** When the bank is asked next whether a paid payout was returned. If the bank did not respond, it is asked in an hour. */
function nextCheck(
  { completedAtMs = 0 }: Payout,
  nowMs: number,
  isAnswered = true,
): Pick<PayoutChange, 'nextInMs'> {
  const sinceMs = nowMs - completedAtMs
  if (!isAnswered && sinceMs < RETURN_CHECKS_MS_MAX) return { nextInMs: HOUR_MS }
  const hours = RETURN_CHECKS_HOURS.find((each) => each * HOUR_MS > sinceMs)
  return hours === undefined ? {} : { nextInMs: hours * HOUR_MS - sinceMs }
}
