import type { ReactNode } from 'react'
import type { HourFigures } from '../../../../gen/inflow/overview/v1/figures_pb.ts'
import type { GetOverviewResponse } from '../../../../gen/inflow/overview/v1/overview_service_pb.ts'
import { count, naira, shortNaira } from '../../format/money.ts'
import { durationText, lagosClock, lagosDay, msOf } from '../../format/time.ts'
import { Sparkline } from '../../ui/charts/sparkline.tsx'
import { useNow } from '../../ui/clock.ts'
import { PageLink } from '../../ui/href.tsx'
import { type Arrivals, withArrivals } from './arrivals.ts'
import { ageText, type Comparison, compare, percentText, successOf } from './comparison.ts'
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
