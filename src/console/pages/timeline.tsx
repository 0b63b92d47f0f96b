import type { KeyboardEvent } from 'react'
import type { ExpectedStep, Step, Timeline } from '../../../gen/inflow/overview/v1/timeline_pb.ts'
import { PayoutStatus } from '../../../gen/inflow/payout/v1/payout_pb.ts'
import {
  HoldState,
  HoldStateSchema,
  RecorderKind,
} from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { type Delivery, DeliveryStatusSchema } from '../../../gen/inflow/webhook/v1/delivery_pb.ts'
import { bankName, enumLabel, type Tone } from '../format/enums.ts'
import { endpointName, placeOfUrl, words } from '../format/ids.ts'
import { naira } from '../format/money.ts'
import {
  clockText,
  dayText,
  durationText,
  lagosClock,
  lagosDay,
  msOf,
  timeTitle,
} from '../format/time.ts'
import { useUrlState } from '../session/view-scope.tsx'
import { Icon } from '../ui/icons.tsx'
import { isModified, lineAt, STEPS } from '../ui/keys.ts'
import { EnumStatus, PageLink, Status, useNow } from '../ui/values.tsx'
import { StepDetails } from './step-details.tsx'

interface TimelineRow {
  /** The name of the line in the URL. */
  readonly key: string
  readonly atMs: number
  /** The time since the previous line; undefined for the first line. */
  readonly sinceMs: number | undefined
  readonly tone: Tone
  readonly title: string
  /** Further details, in grey. */
  readonly text: string
  readonly chip: string
  readonly step: Step['step']
}

/** The attempts of one event at one endpoint, as a group. */
interface AttemptsGroup {
  readonly delivery: Delivery
  readonly rows: readonly TimelineRow[]
  readonly expected: readonly ExpectedRow[]
}

type Line = Pick<TimelineRow, 'key' | 'tone' | 'title' | 'text' | 'chip'>

/**
 * The history of the payment, oldest first. The attempts of a delivery form a group at the time of the first attempt.
 */
function timelineRows(timeline: Timeline): readonly (TimelineRow | AttemptsGroup)[] {
  const bank = bankName(timeline.transaction?.bank ?? 0)
  const expected = expectedRows(timeline)
  const groups = new Map<string, AttemptsGroup & { readonly rows: TimelineRow[] }>()
  const rows: (TimelineRow | AttemptsGroup)[] = []
  let beforeMs = msOf(timeline.transaction?.paidAt)
  for (const [index, { at, step }] of timeline.steps.entries()) {
    if (step.case === undefined) continue
    const deliveryId = step.case === 'deliveryAttempted' ? step.value.deliveryId : ''
    const delivery = timeline.deliveries.find((each) => each.delivery?.id === deliveryId)?.delivery
    let group = groups.get(deliveryId)
    const line = LINES[step.case](step.value as never, { bank, index })
    const atMs = msOf(at) ?? 0
    const fromMs = group?.rows.at(-1)?.atMs ?? beforeMs
    const sinceMs = fromMs === undefined ? undefined : Math.max(0, atMs - fromMs)
    const row = { text: '', chip: '', ...line, atMs, sinceMs, step }
    if (delivery === undefined) {
      beforeMs = atMs
      rows.push(row)
      continue
    }
    if (group === undefined) {
      group = { delivery, rows: [], expected: expected.filter(({ key }) => key === deliveryId) }
      groups.set(deliveryId, group)
      rows.push(group)
    }
    group.rows.push(row)
  }
  return rows
}

interface Names {
  readonly bank: string
  readonly index: number
}

type StepCase = NonNullable<Step['step']['case']>
type Of<Case extends StepCase> = Extract<Step['step'], { case: Case }>['value']

const joined = (...parts: readonly string[]) => parts.filter((part) => part !== '').join(' · ')

const LINES: {
  readonly [Case in StepCase]: (
    step: Of<Case>,
    names: Names,
  ) => Omit<Line, 'text' | 'chip'> & Partial<Line>
} = {
  bankNotified: ({ notificationId, result, cause, tries }, { bank, index }) => ({
    key: notificationId || `notified-${index}`,
    title: `${bank} notified`,
    text: joined(cause, tries > 1 ? `processed ${tries} times` : ''),
    ...(NOTIFIED[result] ?? { tone: 'neutral', chip: words(result) }),
  }),
  paymentRecorded: ({ recorder, held }) => ({
    key: 'recorded',
    tone: held ? 'waiting' : 'good',
    title: 'Recorded',
    text: `by ${RECORDERS[recorder?.kind ?? 0] ?? 'the service'}`,
    chip: held ? 'Held' : '',
  }),
  eventNumbered: ({ eventId, kind, position }) => ({
    key: eventId,
    tone: 'neutral',
    title: `Event #${position}`,
    text: kind,
  }),
  deliveryAttempted: ({ deliveryId, attempt }) => {
    const { number = 0, statusCode = 0, latencyMs = 0, error = '' } = attempt ?? {}
    return {
      key: `${deliveryId}.${number}`,
      tone: error === '' ? 'good' : 'bad',
      title: `Attempt ${number}`,
      text: joined(`${latencyMs} ms`, error),
      chip: statusCode > 0 ? String(statusCode) : 'No response',
    }
  },
  conflictReported: ({ id, amountMinor, accountNumber, resolvedAt }, { bank }) => ({
    key: `${id}.reported`,
    tone: resolvedAt ? 'neutral' : 'bad',
    title: `${bank} reported it otherwise`,
    text: `${naira(amountMinor)} into ${accountNumber}`,
    chip: resolvedAt ? 'Conflict, resolved' : 'Conflict',
  }),
  conflictResolved: ({ id, note }) => ({
    key: `${id}.resolved`,
    tone: 'good',
    title: 'Conflict resolved',
    text: note,
  }),
  holdDecided: ({ holdState, reason }) => ({
    key: `hold-${holdState}`,
    tone: holdState === HoldState.ACCEPTED ? 'good' : 'neutral',
    title: enumLabel(HoldStateSchema, holdState),
    text: reason,
  }),
  paymentSettled: ({ settlementId, amountMinor, feeMinor, splitsMinor }, { index }) => ({
    key: settlementId || `settled-${index}`,
    tone: 'good',
    title: 'Settled',
    text: `${naira(amountMinor - feeMinor - splitsMinor)} available`,
  }),
  paymentReversed: ({ reason, actorName }) => ({
    key: 'reversed',
    tone: 'bad',
    title: 'Reversed',
    text: joined(actorName === '' ? '' : `by ${actorName}`, reason),
  }),
  refundRequested: ({ id, amountMinor, beneficiary }) => ({
    key: `${id}.requested`,
    tone: 'neutral',
    title: 'Refund requested',
    text: `${naira(amountMinor)} to ${beneficiary?.accountName}`,
  }),
  refundCompleted: ({ id, amountMinor, status, detail }) => ({
    key: `${id}.completed`,
    tone: status === PayoutStatus.PAID ? 'good' : 'bad',
    title: status === PayoutStatus.PAID ? 'Refunded' : 'Not refunded',
    text: joined(naira(amountMinor), detail),
  }),
}

const NOTIFIED: Readonly<Record<string, { readonly tone: Tone; readonly chip: string }>> = {
  RECORDED: { tone: 'good', chip: 'Confirmed' },
  DUPLICATE: { tone: 'neutral', chip: 'Duplicate' },
  UNMATCHED: { tone: 'waiting', chip: 'Unmatched' },
  UNCONFIRMED: { tone: 'bad', chip: 'Unconfirmed' },
  MANUAL_REVIEW: { tone: 'waiting', chip: 'Held for review' },
  RETRY: { tone: 'waiting', chip: 'To be processed again' },
  IGNORED: { tone: 'neutral', chip: 'Ignored' },
}

const RECORDERS: Readonly<Record<number, string>> = {
  [RecorderKind.TOKEN]: 'an internal service',
  [RecorderKind.NOTIFICATION]: "the bank's notification",
  [RecorderKind.RECONCILIATION]: 'reconciliation with the bank',
  [RecorderKind.STATEMENT]: 'a statement of the bank',
  [RecorderKind.SANDBOX]: 'a simulated transfer',
  [RecorderKind.ASSIGNMENT]: 'an operator, who assigned it',
  [RecorderKind.IMPORT]: 'an operator, who imported it',
}

interface ExpectedRow {
  readonly key: string
  readonly dueMs: number
  readonly title: string
  /** The endpoint of an attempt. */
  readonly text: string
  readonly isSettlement: boolean
}

function expectedRows(timeline: Timeline): readonly ExpectedRow[] {
  return timeline.expectedSteps.flatMap((expected) => expectedRow(expected, timeline))
}

function expectedRow({ dueAt, step }: ExpectedStep, { deliveries }: Timeline): ExpectedRow[] {
  const dueMs = msOf(dueAt) ?? 0
  if (step.case === 'settlement') {
    return [{ key: 'settlement', dueMs, title: 'Settles', text: '', isSettlement: true }]
  }
  if (step.case !== 'nextAttemptDeliveryId') return []
  const found = deliveries.find(({ delivery }) => delivery?.id === step.value)
  const number = (found?.delivery?.attemptCount ?? 0) + 1
  const { endpointUrl: url = '', endpointDescription: of = '' } = found?.delivery ?? {}
  const text = endpointName(url, of)
  return [{ key: step.value, dueMs, title: `Attempt ${number}`, text, isSettlement: false }]
}

/** The history, newest last, and below it the expected steps. The open lines are in the URL. */
export function TimelineList({ timeline }: { readonly timeline: Timeline }) {
  const [open, setOpen] = useUrlState('open')
  const keys = open === '' ? [] : open.split(',')
  const rows = timelineRows(timeline)
  const toggle = (key: string) => {
    const next = keys.includes(key) ? keys.filter((each) => each !== key) : [...keys, key]
    setOpen(next.join(','))
  }
  const grouped = rows.flatMap((row) => ('rows' in row ? row.delivery.id : []))
  let beforeMs = msOf(timeline.transaction?.paidAt)
  const stepItem = (row: TimelineRow) => {
    const item = (
      <StepItem
        key={row.key}
        row={row}
        beforeMs={beforeMs}
        timeline={timeline}
        isOpen={keys.includes(row.key)}
        onToggle={() => toggle(row.key)}
      />
    )
    beforeMs = row.atMs
    return item
  }
  return (
    <ol className="timeline" onKeyDown={walk}>
      <PaidItem timeline={timeline} />
      {rows.map((row) =>
        'rows' in row ? (
          <li key={row.delivery.id} className="step-group">
            <GroupHead delivery={row.delivery} />
            <ol>
              {row.rows.map(stepItem)}
              {row.expected.map((each) => (
                <ExpectedItem key={each.key} row={{ ...each, text: '' }} />
              ))}
            </ol>
          </li>
        ) : (
          stepItem(row)
        ),
      )}
      {expectedRows(timeline)
        .filter(({ key }) => !grouped.includes(key))
        .map((row) => (
          <ExpectedItem key={row.key} row={row} />
        ))}
    </ol>
  )
}

function GroupHead({ delivery }: { readonly delivery: Delivery }) {
  const { id, eventKind, endpointUrl, endpointDescription, status } = delivery
  return (
    <div className="step-group-head">
      <PageLink to={`/webhooks/deliveries/${id}`}>
        {words(eventKind) || 'Event'} to {endpointName(endpointUrl, endpointDescription)}
      </PageLink>
      <span className="step-text" title={endpointUrl}>
        {endpointDescription !== '' && placeOfUrl(endpointUrl)}
      </span>
      <EnumStatus of={DeliveryStatusSchema} value={status} />
    </div>
  )
}

/** Moves the focus between the lines. Enter opens a line, because each line is a button. */
function walk(event: KeyboardEvent<HTMLElement>): void {
  const step = STEPS[event.key]
  if (step === undefined || isModified(event)) return
  const lines = [...event.currentTarget.querySelectorAll<HTMLElement>('.step-line')]
  const at = lines.indexOf(document.activeElement as HTMLElement)
  if (at < 0) return
  event.preventDefault()
  lineAt(lines, at + step)?.focus()
}

interface StepItemProps {
  readonly row: TimelineRow
  readonly beforeMs: number | undefined
  readonly timeline: Timeline
  readonly isOpen: boolean
  readonly onToggle: () => void
}

/** When the payer paid, as the bank states it. */
function PaidItem({ timeline: { transaction } }: { readonly timeline: Timeline }) {
  const paidMs = msOf(transaction?.paidAt)
  if (paidMs === undefined) return null
  return (
    <li className="step neutral">
      <div className="step-line">
        <time dateTime={new Date(paidMs).toISOString()} title={timeTitle(paidMs)}>
          <span className="step-day">{dayText(paidMs)} </span>
          {clockText(paidMs)}
        </time>
        <span className="step-what">
          <strong>Paid</strong>
          <span className="step-text">{transaction?.payer?.name}</span>
        </span>
      </div>
    </li>
  )
}

function StepItem({ row, beforeMs, timeline, isOpen, onToggle }: StepItemProps) {
  const isNewDay = beforeMs === undefined || dayText(beforeMs) !== dayText(row.atMs)
  return (
    <li className={`step ${row.tone}`}>
      <button type="button" className="step-line" aria-expanded={isOpen} onClick={onToggle}>
        <time dateTime={new Date(row.atMs).toISOString()} title={timeTitle(row.atMs)}>
          {isNewDay && <span className="step-day">{dayText(row.atMs)} </span>}
          {clockText(row.atMs)}
        </time>
        <span className="step-what">
          <strong>{row.title}</strong>
          {row.chip !== '' && <Status tone={row.tone}>{row.chip}</Status>}
          <span className="step-text" title={row.text}>
            {row.text}
          </span>
        </span>
        <span className="step-since">
          {row.sinceMs !== undefined && `+${durationText(row.sinceMs)}`}
        </span>
        <Icon name={isOpen ? 'down' : 'right'} size={12} />
      </button>
      {isOpen && (
        <div className="step-details">
          <StepDetails step={row.step} by={row.text} timeline={timeline} />
        </div>
      )}
    </li>
  )
}

/** An expected step, in grey, with its time. */
function ExpectedItem({ row }: { readonly row: ExpectedRow }) {
  const now = useNow()
  const left = row.dueMs - now
  const when = row.isSettlement
    ? `${lagosDay(row.dueMs)} ${lagosClock(row.dueMs)} Lagos`
    : left > 0
      ? `in ${durationText(Math.ceil(left / 1_000) * 1_000)}`
      : 'now'
  return (
    <li className="step expected">
      <div className="step-line">
        <time dateTime={new Date(row.dueMs).toISOString()} title={timeTitle(row.dueMs)}>
          {row.isSettlement ? dayText(row.dueMs) : clockText(row.dueMs)}
        </time>
        <span className="step-what">
          <strong>{row.title}</strong>
          <span>{when}</span>
          <span className="step-text">{row.text}</span>
        </span>
      </div>
    </li>
  )
}
