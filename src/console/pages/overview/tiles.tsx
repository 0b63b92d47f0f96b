import type { ReactNode } from 'react'
import type { HourFigures } from '../../../../gen/inflow/overview/v1/figures_pb.ts'
import type { GetOverviewResponse } from '../../../../gen/inflow/overview/v1/overview_service_pb.ts'
import { count, naira, shortNaira } from '../../format/money.ts'
import { durationText, HOUR, lagosClock, lagosDay, msOf } from '../../format/time.ts'
import { useNow } from '../../ui/clock.ts'
import { PageLink } from '../../ui/href.tsx'
import { Sparkline } from '../../ui/sparkline.tsx'
import { type Arrivals, withArrivals } from './arrivals.ts'
import { REVIEW_KINDS } from './review-kinds.ts'

/** Six figures: the last 24 hours, and what waits. */
export function Tiles({
  overview,
  arrivals,
}: {
  readonly overview: GetOverviewResponse
  readonly arrivals: Arrivals
}) {
  const { hours, weekBefore } = overview
  const current = hours.map((hour, index) =>
    index === hours.length - 1 ? withArrivals(hour, arrivals) : hour,
  )
  const total = overview.total && withArrivals(overview.total, arrivals)
  const of = (figure: (hour: HourFigures) => number) => ({
    values: current.map(figure),
    comparison: compare(hours, weekBefore, figure),
  })
  return (
    <div className="tiles">
      <Tile
        title="Payments"
        to="/payments"
        number={count(total?.payments ?? 0n)}
        {...of(({ payments }) => Number(payments))}
      />
      <Tile
        title="Amount"
        to="/payments"
        number={shortNaira(total?.amountMinor ?? 0n)}
        whole={naira(total?.amountMinor ?? 0n)}
        {...of(({ amountMinor }) => Number(amountMinor))}
      />
      <Tile
        title="Webhook success"
        to="/webhooks"
        number={percentText(successOf(total))}
        {...of((hour) => successOf(hour) ?? 1)}
      />
      <Tile
        title="Webhook delay, p95"
        to="/webhooks"
        number={total && total.delayP95Ms > 0n ? durationText(Number(total.delayP95Ms)) : '–'}
        {...of(({ delayP95Ms }) => Number(delayP95Ms))}
      />
      <ReviewTile overview={overview} />
      <UnsettledTile overview={overview} />
    </div>
  )
}

interface TileProps {
  readonly title: string
  /** The page behind the figure. */
  readonly to: string
  readonly number: string
  /** The figure in full. */
  readonly whole?: string
  readonly children?: ReactNode
}

function TileFrame({ title, to, number, whole, children }: TileProps) {
  return (
    <PageLink to={to} className="tile">
      <span className="tile-title">{title}</span>
      <span className="tile-number" title={whole}>
        {number}
      </span>
      {children}
    </PageLink>
  )
}

/** A figure of the last 24 hours, its last whole hour beside that of a week before, and its course. */
function Tile({
  values,
  comparison,
  ...frame
}: TileProps & {
  readonly values: readonly number[]
  readonly comparison: Comparison | undefined
}) {
  return (
    <TileFrame {...frame}>
      <span className="tile-text" title="The last whole hour, beside the same hour a week before">
        {comparison ? `${comparison.change} ${comparison.since}` : 'in 24 hours'}
      </span>
      <Sparkline values={values} label={`${frame.title} by hour, in the last 24 hours`} />
    </TileFrame>
  )
}

function ReviewTile({ overview: { review } }: { readonly overview: GetOverviewResponse }) {
  const total = review.reduce((sum, item) => sum + item.count, 0)
  const isCut = review.some(({ more }) => more)
  return (
    <TileFrame title="To review" to="/review" number={`${count(total)}${isCut ? '+' : ''}`}>
      {review.length === 0 ? (
        <span className="tile-text">Nothing waits for a decision</span>
      ) : (
        <span className="tile-list">
          {review.slice(0, 3).map((item) => (
            <span key={item.kind} className="tile-text">
              {count(item.count)}
              {item.more ? '+' : ''} {REVIEW_KINDS[item.kind]?.[item.count === 1 ? 0 : 1]}
            </span>
          ))}
        </span>
      )}
    </TileFrame>
  )
}

function UnsettledTile({ overview: { waiting } }: { readonly overview: GetOverviewResponse }) {
  const now = useNow()
  const oldestMs = msOf(waiting?.oldestUnsettledAt)
  const dueMs = msOf(waiting?.nextSettlementAt)
  if (oldestMs === undefined) {
    return (
      <TileFrame title="Oldest unsettled" to="/settlement" number="–">
        <span className="tile-text">All payments are settled</span>
      </TileFrame>
    )
  }
  const lagMs = Number(waiting?.settlementLagSeconds ?? 0n) * 1_000
  return (
    <TileFrame title="Oldest unsettled" to="/settlement" number={ageText(oldestMs, now)}>
      {lagMs > 0 ? (
        <span className="tile-text late">{durationText(lagMs)} late</span>
      ) : (
        <span className="tile-text">
          {dueMs === undefined
            ? 'No settlement is due'
            : `Settles ${lagosDay(dueMs)} ${lagosClock(dueMs)} Lagos`}
        </span>
      )}
    </TileFrame>
  )
}

/** The last hour that is over, beside the same one a week before. */
interface Comparison {
  /** `▲ 8 %`; `same`; empty if there is nothing to compare with. */
  readonly change: string
  /** `on last Mon 14:00`. */
  readonly since: string
  readonly isUp: boolean
}

const weekday = new Intl.DateTimeFormat('en-GB', { weekday: 'short' })
const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' })

/** Compares one figure of the last whole hour with that of the same hour a week before. */
function compare(
  hours: readonly HourFigures[],
  weekBefore: readonly HourFigures[],
  figure: (hour: HourFigures) => number,
): Comparison | undefined {
  const hour = hours.at(-2)
  const before = weekBefore.at(-2)
  const startMs = msOf(before?.startsAt)
  if (hour === undefined || before === undefined || startMs === undefined) return undefined
  const now = figure(hour)
  const then = figure(before)
  return {
    change: changeText(now, then),
    since: `on last ${weekday.format(startMs)} ${clock.format(startMs)}`,
    isUp: now >= then,
  }
}

/** `▲ 8 %` or `▼ 12 %`; nothing can be said of a share of zero. */
function changeText(now: number, then: number): string {
  if (now === then) return now === 0 ? 'None, as' : 'Same as'
  if (then === 0) return '▲ from none'
  const percent = (100 * (now - then)) / then
  const size = Math.abs(percent)
  const text = size < 1 ? '< 1' : size > 999 ? '> 999' : size.toFixed(0)
  return `${percent > 0 ? '▲' : '▼'} ${text} %`
}

/** The part of webhook attempts that receivers acknowledged, from 0 to 1; undefined: there was none. */
function successOf(figures: HourFigures | undefined): number | undefined {
  if (figures === undefined || figures.attempts === 0n) return undefined
  return Math.min(1, Number(figures.delivered) / Number(figures.attempts))
}

/** `99.95 %`; only what has no failure at all is `100 %`. */
function percentText(part: number | undefined): string {
  if (part === undefined) return '–'
  if (part === 1) return '100 %'
  return `${(Math.floor(part * 10_000) / 100).toFixed(2)} %`
}

/** For how long, in a word or two: `2 d 4 h`. */
function ageText(fromMs: number, nowMs: number): string {
  const age = Math.max(0, nowMs - fromMs)
  if (age < 60_000) return '< 1 min'
  return durationText(age < HOUR ? Math.floor(age / 60_000) * 60_000 : age)
}
