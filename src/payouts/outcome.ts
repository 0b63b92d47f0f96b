import { plainText } from '../banks/bank-fields.ts'
import type { FoundTransfer, SendResult, TransferState } from '../banks/transfer.ts'
import { HOUR_MS } from '../core/durations.ts'
import type { Runtime } from '../postgres/runtime.ts'
import type { FoundAnywhere, Generation } from './find-anywhere.ts'
import {
  askAgainMs,
  NEVER_SEEN,
  type Payout,
  RETURN_CHECKS_HOURS,
  RETURN_CHECKS_MS_MAX,
  UNCLEAR_MS_MAX,
} from './payout.ts'
import { SENT_BEFORE } from './route-payout.ts'
import type { PayoutChange } from './store.ts'

const DETAIL_MAX = 500

/** What a payout becomes that may have been sent before the database was restored, by what all banks know of it. */
export function afterFindingAnywhere(
  payout: Payout,
  found: FoundAnywhere,
  { generation }: Generation,
): readonly PayoutChange[] {
  const { status, attempts } = payout
  if (found.kind === 'unclear') {
    const detail = `the banks are asked whether it was sent before the database was restored or failed over: ${found.cause}`
    const nextInMs = found.nextInMs ?? askAgainMs(attempts)
    return [{ status, attempts: attempts + 1, nextInMs, detail }]
  }
  if (found.kind === 'never sent') {
    const step =
      'no bank knows it, so it was not sent before the database was restored or failed over'
    // The bank that was being called may still execute it.
    if (status === 'SUBMITTING') {
      return [{ status: 'UNKNOWN', generation, attempts: 0, nextInMs: 0, step, detail: step }]
    }
    // A payout that waits for an approval next expires.
    const next = status === 'APPROVED' ? { nextInMs: 0 } : {}
    return [{ status, generation, attempts: 0, step, detail: '', ...next }]
  }
  const { bank, state } = found
  const step = `${bank} knows it: it was sent before the database was restored or failed over`
  const approved = { status: 'APPROVED', nextInMs: 0, step } as const
  const sent = {
    status: 'SUBMITTING',
    submitted: true,
    bank,
    step,
    nextInMs: 0,
    generation,
  } as const
  const changes = [sent, ...afterSending(payout, state)]
  return status === 'PENDING_APPROVAL' ? [approved, ...changes] : changes
}

/** What a sent payout becomes. A list of two: it was paid and returned. */
export function afterSending(payout: Payout, result: SendResult): readonly PayoutChange[] {
  if (result.kind === 'not sent') {
    const cause = plainText(result.cause, DETAIL_MAX)
    return [
      {
        status: 'APPROVED',
        // One that is sent again stays with its bank.
        ...(payout.routing !== SENT_BEFORE && { submitted: false }),
        nextInMs: askAgainMs(payout.attempts),
        attempts: payout.attempts + 1,
        step: `nothing was sent: ${cause}`,
        detail: cause,
      },
    ]
  }
  // A refusal is about the second transfer only. What became of the first one the bank states when it is asked.
  const isRefusedAgain = result.kind === 'failed' && payout.routing === SENT_BEFORE
  const stated = isRefusedAgain ? undefined : afterStatement(result)
  if (stated !== undefined) return stated
  const cause = causeOf(result)
  const text =
    result.kind === 'pending' ? `the bank accepted it: ${cause}` : `the result is unknown: ${cause}`
  return [{ status: 'UNKNOWN', nextInMs: askAgainMs(0), step: text, detail: cause }]
}

/** What a bank stated for good; undefined: nothing. */
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

/** What a payout becomes whose bank was asked. */
export function afterAsking(
  { clock, log }: Runtime,
  payout: Payout,
  found: FoundTransfer,
): readonly PayoutChange[] {
  const { status, attempts } = payout
  if (status === 'PAID') {
    if (found.kind === 'returned') return [returned(found.cause)]
    if (found.kind === 'failed') {
      log.error(
        { payoutId: payout.id, cause: found.cause },
        'the bank states that a paid payout failed: see inflow payout get',
      )
      const text = `the bank states now that it failed: ${plainText(found.cause, DETAIL_MAX)}`
      return [{ status, step: text, detail: text, ...nextCheck(payout, clock.now()) }]
    }
    const isAnswered = found.kind !== 'unknown'
    return [{ status, ...nextCheck(payout, clock.now(), isAnswered) }]
  }
  const stated = found.kind === 'not found' ? undefined : afterStatement(found)
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
  const sinceMs = clock.now() - (payout.submittedAtMs ?? payout.createdAtMs)
  if (sinceMs > UNCLEAR_MS_MAX) {
    const step = `the bank states no result for a day: ${cause}`
    return [{ status: 'MANUAL_REVIEW', nextInMs: HOUR_MS, step, detail: cause }]
  }
  return [{ status, attempts: attempts + 1, nextInMs: askAgainMs(attempts + 1), detail: cause }]
}

/** When a paid payout is asked about next: if the bank did not respond, soon again. */
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
