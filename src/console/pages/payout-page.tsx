import { useQuery } from '@connectrpc/connect-query'
import { useState } from 'react'
import { useParams } from 'wouter'
import {
  type Payout,
  PayoutSchema,
  PayoutStatus,
  PayoutStatusSchema,
  type PayoutStep,
} from '../../../gen/inflow/payout/v1/payout_pb.ts'
import {
  PayoutDecision,
  PayoutDecisionSchema,
  PayoutService,
  ResolvePayoutRequestSchema,
} from '../../../gen/inflow/payout/v1/payout_service_pb.ts'
import { bankName, enumLabel, enumName, enumTone } from '../format/enums.ts'
import { naira } from '../format/money.ts'
import { clockText, dayText, durationText, msOf, timeTitle } from '../format/time.ts'
import { useMay, useRestricted } from '../session/session.tsx'
import { useShowObject } from '../session/view-scope.tsx'
import { Action } from '../ui/action.tsx'
import { MessageFacts } from '../ui/columns.tsx'
import { Fields } from '../ui/form.tsx'
import { Loaded, Page } from '../ui/page.tsx'
import { BusinessLink, Id, PageLink, Status, useNow } from '../ui/values.tsx'
import { AmountTo } from './payout-forms.tsx'
import {
  PayoutStatusShown,
  payoutAmount,
  payoutsReadMs,
  Requester,
  useOwnName,
  usePayoutEvents,
} from './payout-words.tsx'

const METHODS = PayoutService.method

/** One payout: its status, its history, and the possible decisions. */
export function PayoutPage() {
  const { id = '' } = useParams()
  const read = useQuery(
    METHODS.getPayout,
    { payoutId: id },
    {
      refetchInterval: ({ state }) => payoutsReadMs(state.data?.payout ? [state.data.payout] : []),
    },
  )
  usePayoutEvents((payout) => payout.id === id, read.refetch)
  const { payout, steps = [] } = read.data ?? {}
  useShowObject(payout)
  return (
    <Page title="Payout" actions={<Id text={id} charsMax={40} />}>
      <Loaded read={read} rows={10} />
      {payout && <Verdict payout={payout} />}
      {payout && (
        <div className="two-thirds">
          <section aria-label="Timeline">
            <Steps payout={payout} steps={steps} />
          </section>
          <aside className="payment-summary" aria-label="The payout">
            <div className="payment-amount">
              {payoutAmount(payout)}
              <PayoutStatusShown {...payout} />
            </div>
            <PayoutActions payout={payout} />
            <PayoutFacts payout={payout} />
          </aside>
        </div>
      )}
    </Page>
  )
}

/** The status of the payout, in a sentence. */
function Verdict({ payout }: { readonly payout: Payout }) {
  const own = useOwnName()
  const isPortal = useRestricted()
  const isOwn = payout.status === PayoutStatus.PENDING_APPROVAL && payout.requestedBy === own
  return (
    <div className={`verdict ${enumTone(PayoutStatusSchema, payout.status)}`}>
      <p>
        {VERDICTS[payout.status]?.(payout, isPortal)}
        {isOwn && ' You requested it: another person has to approve it.'}
      </p>
    </div>
  )
}

/** The failure reason if the bank states, after its consistency window, that it never saw the payout. */
const NEVER_SEEN = 'not_found_at_bank'

const withDetail =
  (text: string) =>
  ({ detail }: Payout) =>
    detail === '' ? `${text}.` : `${text}: ${detail}`

/** The effect on the money if the payout was not paid. */
const givenBack = ({ unmatchedPaymentId }: Payout, what = 'the money') =>
  unmatchedPaymentId === ''
    ? `${what} is available again`
    : 'the unmatched payment waits for a decision again'

const VERDICTS: Readonly<Record<number, (payout: Payout, isPortal: boolean) => string>> = {
  [PayoutStatus.PENDING_APPROVAL]: ({ approvalReason }) =>
    `It needs an approval: ${approvalReason}.`,
  [PayoutStatus.APPROVED]: withDetail(
    'It is sent as soon as a bank responds, is not paused and has the money',
  ),
  [PayoutStatus.SUBMITTING]: () => 'It is being sent to the bank.',
  [PayoutStatus.UNKNOWN]: () =>
    'The bank has not stated the result. It is asked repeatedly; the payout is not sent again.',
  [PayoutStatus.MANUAL_REVIEW]({ failureReason }, isPortal) {
    const what =
      failureReason === NEVER_SEEN ? 'states that it never saw it' : 'does not state the result'
    return isPortal
      ? `The bank ${what}. An operator checks the bank's books.`
      : `The bank ${what}. Check the bank's books, then decide.`
  },
  [PayoutStatus.PAID]: () => 'The bank paid it.',
  [PayoutStatus.FAILED]: (payout) =>
    withDetail(`It was not paid, and ${givenBack(payout)}`)(payout),
  [PayoutStatus.REJECTED]: (payout) => `It was rejected, and ${givenBack(payout)}.`,
  [PayoutStatus.CANCELLED]: (payout) =>
    `It was cancelled before it was sent, and ${givenBack(payout)}.`,
  [PayoutStatus.EXPIRED]: (payout) => `It was not approved in time, and ${givenBack(payout)}.`,
  [PayoutStatus.RETURNED]: (payout) =>
    `The bank of the beneficiary sent it back, and ${givenBack(payout, 'its amount')}.`,
}

/** The history of the payout, newest last, followed by the next expected step. */
function Steps({ payout, steps }: { payout: Payout; steps: readonly PayoutStep[] }) {
  return (
    <ol className="timeline plain">
      {steps.map((step, index) => (
        <StepItem key={`${msOf(step.at)} ${step.text}`} step={step} before={steps[index - 1]} />
      ))}
      <Expected payout={payout} />
    </ol>
  )
}

function StepItem({ step, before }: { step: PayoutStep; before: PayoutStep | undefined }) {
  const { status, actor } = step
  const atMs = msOf(step.at) ?? 0
  const beforeMs = msOf(before?.at)
  const isNewDay = beforeMs === undefined || dayText(beforeMs) !== dayText(atMs)
  const tone = enumTone(PayoutStatusSchema, status)
  const [what = '', ...more] = step.text.split(': ')
  return (
    <li className={`step ${tone}`}>
      <div className="step-line">
        <time dateTime={new Date(atMs).toISOString()} title={timeTitle(atMs)}>
          {isNewDay && <span className="step-day">{dayText(atMs)} </span>}
          {clockText(atMs)}
        </time>
        <span className="step-what">
          <strong>{what.charAt(0).toUpperCase() + what.slice(1)}</strong>
          {status !== before?.status && (
            <Status tone={tone}>{enumLabel(PayoutStatusSchema, status)}</Status>
          )}
          <span className="step-text">
            {actor !== '' && (
              <>
                by <Requester of={actor} />
                {more.length > 0 && ' · '}
              </>
            )}
            {more.join(': ')}
          </span>
        </span>
        <span className="step-since">
          {beforeMs !== undefined && `+${durationText(Math.max(0, atMs - beforeMs))}`}
        </span>
      </div>
    </li>
  )
}

/** The next step that the service takes by itself, and when. */
function Expected({ payout: { status, nextAt, expiresAt } }: { readonly payout: Payout }) {
  const now = useNow()
  const title = EXPECTED[status]
  const dueMs = msOf(status === PayoutStatus.PENDING_APPROVAL ? expiresAt : nextAt)
  if (title === undefined || dueMs === undefined) return null
  const left = dueMs - now
  const isToday = dayText(dueMs) === dayText(now)
  return (
    <li className="step expected">
      <div className="step-line">
        <time dateTime={new Date(dueMs).toISOString()} title={timeTitle(dueMs)}>
          {!isToday && <span className="step-day">{dayText(dueMs)} </span>}
          {clockText(dueMs)}
        </time>
        <span className="step-what">
          <strong>{title}</strong>
          <span>{left > 0 ? `in ${durationText(Math.ceil(left / 1_000) * 1_000)}` : 'now'}</span>
        </span>
      </div>
    </li>
  )
}

const EXPECTED: Readonly<Record<number, string>> = {
  [PayoutStatus.PENDING_APPROVAL]: 'Expires',
  [PayoutStatus.APPROVED]: 'Is sent',
  [PayoutStatus.UNKNOWN]: 'The bank is asked again',
  [PayoutStatus.MANUAL_REVIEW]: 'The bank is asked again',
  [PayoutStatus.PAID]: 'The bank is asked whether the money came back',
}

function PayoutActions({ payout }: { readonly payout: Payout }) {
  const { id, status, requestedBy, submittedAt, amountMinor, beneficiary } = payout
  const own = useOwnName()
  const isPending = status === PayoutStatus.PENDING_APPROVAL
  const isWaiting = status === PayoutStatus.APPROVED && submittedAt === undefined
  const shared = { request: { payoutId: id }, target: id }
  const text = `${naira(amountMinor)} to ${beneficiary?.accountName ?? ''}`
  return (
    <div className="payment-actions">
      <Action
        method={METHODS.approvePayout}
        label="Approve"
        kind="primary"
        isOffered={isPending && requestedBy !== own}
        says={
          <>
            {beneficiary && <AmountTo amountMinor={amountMinor} {...beneficiary} />}
            <p>It is sent as soon as a bank can pay it.</p>
          </>
        }
        fields={{ note: { rows: 2 } }}
        {...shared}
      />
      <Action
        method={METHODS.rejectPayout}
        label="Reject"
        kind="danger"
        isOffered={isPending}
        says={`Rejects ${text}. The money is available again.`}
        reason="Why"
        {...shared}
      />
      <Action
        method={METHODS.cancelPayout}
        label="Cancel the payout"
        isOffered={(isPending || isWaiting) && (isBusiness(requestedBy) || !isBusiness(own))}
        says={`Cancels ${text} before it is sent. The money is available again.`}
        fields={{ note: { rows: 2 } }}
        {...shared}
      />
      <Decide payout={payout} />
    </div>
  )
}

/** Whether a requester is the business itself, by its secret key or a portal link. It can cancel only its own payouts. */
const isBusiness = (requester: string) => /^(secret_key:|token:plk_)/.test(requester)

/** The possible decisions in a status. */
function decisionsOf(
  { status, failureReason, requestedBy, approvalReason, submittedAt }: Payout,
  own: string,
): readonly PayoutDecision[] {
  const { MARK_PAID, MARK_FAILED, ASK_AGAIN, RESEND, MARK_RETURNED } = PayoutDecision
  // The requester cannot make a decision that gives the money back, nor have a payout sent that needs an approval.
  const [failed, returned] = requestedBy === own ? [[], []] : [[MARK_FAILED], [MARK_RETURNED]]
  const isApproval = requestedBy === own && approvalReason !== ''
  if (status === PayoutStatus.PAID) return returned
  if (status === PayoutStatus.UNKNOWN) return [ASK_AGAIN, MARK_PAID, ...failed]
  // It is to be sent again.
  if (status === PayoutStatus.APPROVED && submittedAt) return [ASK_AGAIN]
  if (status !== PayoutStatus.MANUAL_REVIEW) return []
  const resend = failureReason === NEVER_SEEN && !isApproval ? [RESEND] : []
  return [ASK_AGAIN, MARK_PAID, ...failed, ...resend]
}

function Decide({ payout }: { readonly payout: Payout }) {
  const { id, bankReference, bank } = payout
  const decisions = decisionsOf(payout, useOwnName())
  const isReturn = payout.status === PayoutStatus.PAID
  return (
    <Action
      method={METHODS.resolvePayout}
      label={isReturn ? 'Record a return' : 'Decide'}
      isOffered={decisions.length > 0}
      says={
        <p>
          Look at the books of {bankName(bank)} first, for the reference{' '}
          <code>{bankReference}</code>.
        </p>
      }
      request={{ payoutId: id }}
      confirm={({ decision = 0 }) => <Consequence payout={payout} decision={decision} />}
      target={id}
    >
      <DecisionFields decisions={decisions} />
    </Action>
  )
}

function DecisionFields({ decisions }: { readonly decisions: readonly PayoutDecision[] }) {
  const choices = decisions.map((value) => ({
    value: enumName(PayoutDecisionSchema, value),
    label: enumLabel(PayoutDecisionSchema, value),
  }))
  const [chosen, setChosen] = useState(choices[0]?.value)
  return (
    <Fields
      of={ResolvePayoutRequestSchema}
      show={[
        { decision: { choices, onChoose: setChosen } },
        ...(chosen === 'MARK_PAID'
          ? [{ sessionId: { label: 'Session id', hint: 'Leave it empty if it is not known.' } }]
          : []),
        { note: { label: 'How it is known', rows: 3 } },
      ]}
    />
  )
}

function Consequence({ payout, decision }: { payout: Payout; decision: PayoutDecision }) {
  const { amountMinor, beneficiary } = payout
  return (
    <>
      {beneficiary && <AmountTo amountMinor={amountMinor} {...beneficiary} />}
      <p>{CONSEQUENCES[decision]}</p>
    </>
  )
}

const CONSEQUENCES: Readonly<Record<number, string>> = {
  [PayoutDecision.ASK_AGAIN]: 'The bank is asked again at once. Nothing is sent.',
  [PayoutDecision.MARK_PAID]:
    'The payout becomes PAID and cannot change back: its money is no longer reserved, and the business is notified.',
  [PayoutDecision.MARK_FAILED]:
    'The payout becomes FAILED and cannot change back: its money is available to the business again. If the bank has paid it, or pays it later, that money is lost.',
  [PayoutDecision.RESEND]:
    'The bank is asked once more whether it knows the payout. If it does not, the payout is sent again under the same reference.',
  [PayoutDecision.MARK_RETURNED]:
    'The amount is available to the business again, and the business is notified. The fee stays charged.',
}

function PayoutFacts({ payout }: { readonly payout: Payout }) {
  const mayReadBusiness = useMay()(METHODS.getFloat)
  return (
    <MessageFacts
      schema={PayoutSchema}
      of={payout}
      facts={[
        'purpose',
        ['To', ({ beneficiary }) => beneficiary?.accountName],
        ['Account', ({ beneficiary }) => beneficiary && <Id text={beneficiary.accountNumber} />],
        ['Bank', ({ beneficiary }) => beneficiary?.bankName],
        'narration',
        ['Fee', 'feeMinor'],
        ['Duty', 'dutyMinor'],
        'reference',
        ['Requested', 'createdAt'],
        ['By', ({ requestedBy }) => <Requester of={requestedBy} />],
        ['Approval', ({ approvalReason }) => approvalReason],
        ['Decided by', ({ decidedBy }) => decidedBy !== '' && <Requester of={decidedBy} />],
        ['Note', ({ decisionNote }) => decisionNote],
        ['Expires', 'expiresAt'],
        ['Sent through', ({ bank }) => bank !== 0 && bankName(bank)],
        ['Because', ({ routing }) => routing],
        'bankReference',
        ['Sent', 'submittedAt'],
        ['Completed', 'completedAt'],
        ['Session', 'sessionId'],
        ['Failure', ({ failureReason }) => failureReason !== '' && <code>{failureReason}</code>],
        [
          'Refunds',
          ({ transactionId, refundedSessionId }) =>
            transactionId !== '' && (
              <PageLink to={`/payments/${transactionId}`}>{refundedSessionId}</PageLink>
            ),
        ],
        [
          'Returns',
          ({ unmatchedPaymentId, refundedSessionId }) =>
            unmatchedPaymentId !== '' && (
              <>
                the unmatched payment <Id text={unmatchedPaymentId} />, session{' '}
                <Id text={refundedSessionId} />
              </>
            ),
        ],
        [
          'Settlement',
          ({ settlementId }) =>
            settlementId !== '' && (
              <PageLink to={`/settlement/${settlementId}`}>{settlementId}</PageLink>
            ),
        ],
        [
          'Batch',
          ({ batchId, businessId }) =>
            batchId !== '' && (
              <PageLink to={`/payouts/batches/${businessId}/${batchId}`}>{batchId}</PageLink>
            ),
        ],
        [
          'Business',
          ({ businessId }) =>
            mayReadBusiness && businessId !== '' && <BusinessLink id={businessId} />,
        ],
        ['Mode', ({ live }) => (live ? 'Live' : 'Test')],
      ]}
    />
  )
}
