import type { KeyboardEvent } from 'react'
import type { Timeline } from '../../../../gen/inflow/overview/v1/timeline_pb.ts'
import {
  clockText,
  dayText,
  durationText,
  lagosClock,
  lagosDay,
  timeTitle,
} from '../../format/time.ts'
import { useUrlState } from '../../session/view-scope.ts'
import { useNow } from '../../ui/clock.ts'
import { Icon } from '../../ui/icons.tsx'
import { Status } from '../../ui/status.tsx'
import { StepDetails } from './step-details.tsx'
import { type ExpectedRow, expectedRows, type TimelineRow, timelineRows } from './timeline-rows.ts'

/** What happened, newest last, and below it what is to come. The lines that are open are in the URL. */
export function TimelineList({ timeline }: { readonly timeline: Timeline }) {
  const [open, setOpen] = useUrlState('open')
  const keys = open === '' ? [] : open.split(',')
  const rows = timelineRows(timeline)
  const toggle = (key: string) => {
    const next = keys.includes(key) ? keys.filter((each) => each !== key) : [...keys, key]
    setOpen(next.join(','))
  }
  return (
    <ol className="timeline" onKeyDown={walk}>
      {rows.map((row, index) => (
        <StepItem
          key={row.key}
          row={row}
          before={rows[index - 1]}
          timeline={timeline}
          isOpen={keys.includes(row.key)}
          onToggle={() => toggle(row.key)}
        />
      ))}
      {expectedRows(timeline).map((row) => (
        <ExpectedItem key={row.key} row={row} />
      ))}
    </ol>
  )
}

const STEPS: Readonly<Record<string, number>> = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }

/** Moves the focus between the lines; Enter opens one, because it is a button. */
function walk(event: KeyboardEvent<HTMLElement>): void {
  const step = STEPS[event.key]
  if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return
  const lines = [...event.currentTarget.querySelectorAll<HTMLElement>('.step-line')]
  const at = lines.indexOf(document.activeElement as HTMLElement)
  if (at < 0) return
  event.preventDefault()
  lines[Math.min(lines.length - 1, Math.max(0, at + step))]?.focus()
}

function StepItem({
  row,
  before,
  timeline,
  isOpen,
  onToggle,
}: {
  readonly row: TimelineRow
  readonly before: TimelineRow | undefined
  readonly timeline: Timeline
  readonly isOpen: boolean
  readonly onToggle: () => void
}) {
  const isNewDay = before === undefined || dayText(before.atMs) !== dayText(row.atMs)
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
          <StepDetails row={row} timeline={timeline} />
        </div>
      )}
    </li>
  )
}

/** In grey, with when it will happen. */
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
