import { useQuery } from '@connectrpc/connect-query'
import { type ReactNode, useEffect, useState } from 'react'
import type { Event } from '../../../gen/inflow/event/v1/event_pb.ts'
import {
  type BankState,
  BankStateSchema,
  type Health as Figures,
  type HourFigures,
  type Waiting as WaitingFigures,
} from '../../../gen/inflow/overview/v1/figures_pb.ts'
import {
  type GetOverviewResponse,
  OverviewService,
} from '../../../gen/inflow/overview/v1/overview_service_pb.ts'
import type { ReviewItem } from '../../../gen/inflow/overview/v1/review_pb.ts'
import { PayoutService } from '../../../gen/inflow/payout/v1/payout_service_pb.ts'
import type { ReconciliationRun } from '../../../gen/inflow/reconciliation/v1/reconciliation_run_pb.ts'
import { bankName } from '../format/enums.ts'
import { count, naira, shortNaira } from '../format/money.ts'
import { CLOCK, durationText, formatter, HOUR, lagosClock, lagosDay, msOf } from '../format/time.ts'
import { useEvents } from '../session/live.tsx'
import { SUMMARY_ITEMS, useReviewSummary } from '../session/review-summary.ts'
import { useMay, useReader } from '../session/session.tsx'
import { useViewScope } from '../session/view-scope.tsx'
import { columnsOf } from '../ui/columns.tsx'
import { Table } from '../ui/list.tsx'
import { Facts, Loaded, Page, Section } from '../ui/page.tsx'
import { PageLink, Sparkline, Status, Time, useNow } from '../ui/values.tsx'
import { type Arrivals, addArrivals, keepUncounted, NO_ARRIVALS, withArrivals } from './arrivals.ts'
import { Floats } from './floats.tsx'
import { countText, kindOf, placeOf, totalOf } from './review-kinds.ts'

/** The figures of the last 24 hours, waiting work, and the health of the service. */
export function OverviewPage() {
  const { read, arrivals } = useOverview()
  const mayReadFloat = useMay()(PayoutService.method.getFloat)
  return (
    <Page title="Overview">
      <Loaded read={read} rows={10}>
        {(data) => (
          <>
            <Tiles overview={data} arrivals={arrivals} />
            {data.banks.length > 0 && (
              <Section title="Banks">
                <Table
                  label="Banks"
                  columns={BANK_COLUMNS}
                  rows={data.banks}
                  keyOf={({ bank }) => String(bank)}
                />
              </Section>
            )}
            {mayReadFloat && (
              <Section
                title="Payouts"
                actions={<PageLink to="/payouts/controls">Pause or resume</PageLink>}
              >
                <Floats />
              </Section>
            )}
            <div className={data.health ? 'two-thirds' : undefined}>
              <NeedsYou />
              {data.health && <Health health={data.health} waiting={data.waiting} />}
            </div>
          </>
        )}
      </Loaded>
    </Page>
  )
}

/** How often the figures are read. They are polled, because no stream covers webhooks, banks and the database. */
const REFRESH_MS = 30_000

/** The figures, and the payments that arrived since they were computed. */
function useOverview() {
  const { live, businessId } = useViewScope()
  const read = useQuery(
    OverviewService.method.getOverview,
    { businessId, test: !live },
    { refetchInterval: REFRESH_MS },
  )
  const [arrivals, setArrivals] = useState<Arrivals>(NO_ARRIVALS)
  const { data, refetch } = read
  const atMs = msOf(data?.at)
  const uncounted = Number(data?.health?.uncountedEvents ?? 0n)
  useEffect(() => {
    if (atMs !== undefined) setArrivals((now) => keepUncounted(now, atMs, uncounted))
  }, [atMs, uncounted])
  // biome-ignore lint/correctness/useExhaustiveDependencies: the figures of another mode or business begin anew
  useEffect(() => setArrivals(NO_ARRIVALS), [live, businessId])
  useEvents((events, missed) => {
    if (missed) void refetch()
    const payments = events
      .filter(isPaymentOf(live, businessId))
      .map(({ occurredAt, payload }) => ({
        atMs: msOf(occurredAt) ?? 0,
        amountMinor: payload.case === 'transaction' ? payload.value.amountMinor : 0n,
      }))
    if (payments.length > 0) setArrivals((now) => addArrivals(now, payments))
  })
  return { read, arrivals }
}

function isPaymentOf(live: boolean, businessId: string): (event: Event) => boolean {
  return (event) =>
    event.kind === 'PAYMENT_NOTIFICATION' &&
    event.live === live &&
    (businessId === '' || event.businessId === businessId)
}

const BANK_COLUMNS = columnsOf(BankStateSchema, [
  ['Bank', ({ bank }) => <strong>{bankName(bank)}</strong>],
  ['State', (bank) => <BankStatus bank={bank} />],
  ['Last notification', 'lastNotificationAt', 'wide'],
  ['Last payment', 'lastPaymentAt'],
  [
    'Last reconciliation',
    ({ reconciliationRuns }) => <LastRun runs={reconciliationRuns} />,
    'wide',
  ],
  [
    'Openings pending',
    ({ pendingOpenings }) => (pendingOpenings >= 1_000 ? '1,000+' : String(pendingOpenings)),
    'number',
  ],
])

/** Whether calls to the bank get through, and whether it is the real bank. */
function BankStatus({ bank }: { readonly bank: BankState }) {
  const { connector, breaker, breakerSince, accessDenied } = bank
  const kind = connector === 'sandbox' ? 'Sandbox' : 'Live'
  if (accessDenied) return <Status tone="bad">Denies access</Status>
  if (breaker === 'closed') {
    return <Status tone={kind === 'Live' ? 'good' : 'neutral'}>{kind}</Status>
  }
  return (
    <>
      <Status tone={breaker === 'open' ? 'bad' : 'waiting'}>
        {breaker === 'open' ? 'Not reached' : 'Trying again'}
      </Status>{' '}
      <span className="faint">
        {kind}, since <Time at={breakerSince} />
      </span>
    </>
  )
}

/** The latest finished run, or the run in progress. */
function LastRun({ runs }: { readonly runs: readonly ReconciliationRun[] }) {
  const failing = runs.find(({ failureCount }) => failureCount > 0)
  const run = failing ?? runs[0]
  // `to` equals `from` if no run has begun.
  if (run === undefined || (run.missedCount === 0 && msOf(run.to) === msOf(run.from))) {
    return <span className="faint">None</span>
  }
  if (failing) {
    const times = failing.failureCount === 1 ? 'Failed' : `Failed ${failing.failureCount} times`
    return <Status tone="bad">{times}</Status>
  }
  return (
    <>
      {run.inProgress ? 'In progress, up to ' : 'Up to '}
      <Time at={run.to} />
      {run.missedCount > 0 && <span className="soft"> · {run.missedCount} found missing</span>}
    </>
  )
}

/** The oldest items of the review queue, each with a link to the page that decides it. */
function NeedsYou() {
  const read = useReviewSummary()
  return (
    <Section title="Needs you" actions={<PageLink to="/review">All</PageLink>}>
      <Loaded read={read} rows={SUMMARY_ITEMS} />
      {read.data?.items.length === 0 && <p className="faint">Nothing waits for a decision.</p>}
      <ul className="needs">
        {read.data?.items.map((item) => (
          <NeedsYouItem key={`${item.kind} ${item.id}`} item={item} />
        ))}
      </ul>
    </Section>
  )
}

function NeedsYouItem({ item }: { readonly item: ReviewItem }) {
  const { kind, text, since, amountMinor, businessName } = item
  const [to, action, query] = placeOf(item)
  const isReader = useReader()
  return (
    <li>
      <span className="need-kind">{kindOf(kind)?.inText[0] ?? 'item'}</span>
      <span className="need-text" title={text}>
        {businessName !== '' && <strong>{businessName}: </strong>}
        {text}
      </span>
      <span className="need-amount">{amountMinor > 0n && naira(amountMinor)}</span>
      <span className="faint">
        <Time at={since} />
      </span>
      <PageLink to={to} {...(query && { query })} className="button">
        {isReader ? 'Open' : action}
      </PageLink>
    </li>
  )
}

/** The health of the service and its database, as the responding instance sees it. */
function Health({ health, waiting }: { health: Figures; waiting: WaitingFigures | undefined }) {
  const { notReady, standbys } = health
  const isReady = notReady.length === 0
  return (
    <Section title="Health">
      <Facts
        facts={[
          [
            'Service',
            <Status key="ready" tone={isReady ? 'good' : 'bad'}>
              {isReady ? 'Ready' : `Not ready: ${notReady.join(', ')}`}
            </Status>,
          ],
          ['Database', `PostgreSQL ${health.postgresVersion}, ${health.databaseLatencyMs} ms`],
          [
            'Standbys',
            standbys.length === 0
              ? 'none'
              : standbys.map(({ name, state, replayLagMs }) => (
                  <div key={name}>
                    {name}: {state}, {durationText(Number(replayLagMs))} behind
                  </div>
                )),
          ],
          [
            'Events to number',
            health.sequencerLagMs > 0n
              ? `oldest ${durationText(Number(health.sequencerLagMs))}`
              : 'none',
          ],
          ['Without deliveries', `${count(health.undispatchedEvents)} events`],
          [
            'Deliveries due',
            waiting && waiting.dueDeliveries > 0 ? (
              <>
                {waiting.dueDeliveries >= 10_000 ? '10,000+' : count(waiting.dueDeliveries)}, oldest{' '}
                <Time at={waiting.oldestDeliveryDueAt} />
              </>
            ) : (
              'none'
            ),
          ],
          ['Version', health.version],
        ]}
      />
    </Section>
  )
}

const INCLUDED =
  'Payments that were reversed later count; payments on hold count once they are accepted'

function Tiles({ overview, arrivals }: { overview: GetOverviewResponse; arrivals: Arrivals }) {
  const { hours, weekBefore } = overview
  const current = hours.map((hour, index) =>
    index === hours.length - 1 ? withArrivals(hour, arrivals) : hour,
  )
  const total = overview.total && withArrivals(overview.total, arrivals)
  const of = (figure: Figure, without = 0) => ({
    values: current.map((hour) => figure(hour) ?? without),
    comparison: compare(hours, weekBefore, figure),
  })
  return (
    <div className="tiles">
      <Tile
        title="Payments"
        to="/payments"
        includes={INCLUDED}
        number={count(total?.payments ?? 0n)}
        {...of(({ payments }) => Number(payments))}
      />
      <Tile
        title="Amount"
        to="/payments"
        includes={INCLUDED}
        number={shortNaira(total?.amountMinor ?? 0n)}
        whole={naira(total?.amountMinor ?? 0n)}
        {...of(({ amountMinor }) => Number(amountMinor))}
      />
      <Tile
        title="Webhook success"
        to="/webhooks"
        number={percentText(successOf(total))}
        {...of(successOf, 1)}
      />
      <Tile
        title="Webhook delay, p95"
        to="/webhooks"
        number={total && total.delayP95Ms > 0n ? durationText(Number(total.delayP95Ms)) : '–'}
        {...of(({ delayP95Ms }) => Number(delayP95Ms) || undefined)}
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

interface HourTileProps extends TileProps {
  readonly values: readonly number[]
  readonly comparison: string | undefined
  /** What the figure counts, if that is not obvious. */
  readonly includes?: string
}

/** A figure of the last 24 hours, a comparison of its last whole hour with the previous week, and a sparkline. */
function Tile({ values, comparison, includes, ...frame }: HourTileProps) {
  return (
    <TileFrame {...frame}>
      <span
        className="tile-text"
        title={`The last whole hour, compared with the same hour a week before${includes === undefined ? '' : `. ${includes}`}`}
      >
        {comparison ?? 'in 24 hours'}
      </span>
      <Sparkline values={values} label={`${frame.title} by hour, in the last 24 hours`} />
    </TileFrame>
  )
}

interface OverviewProps {
  readonly overview: GetOverviewResponse
}

function ReviewTile({ overview: { review } }: OverviewProps) {
  return (
    <TileFrame title="To review" to="/review" number={countText(totalOf(review))}>
      {review.length === 0 ? (
        <span className="tile-text">Nothing waits for a decision</span>
      ) : (
        <span className="tile-list">
          {review.slice(0, 3).map((item) => (
            <span key={item.kind} className="tile-text">
              {countText(item)} {kindOf(item.kind)?.inText[item.count === 1 ? 0 : 1]}
            </span>
          ))}
        </span>
      )}
    </TileFrame>
  )
}

function UnsettledTile({ overview: { waiting } }: OverviewProps) {
  const now = useNow()
  const oldestMs = msOf(waiting?.oldestUnsettledAt)
  const lagMs = Number(waiting?.settlementLagSeconds ?? 0n) * 1_000
  const isLate = oldestMs !== undefined && lagMs > 0
  const text = isLate ? `${durationText(lagMs)} late` : dueText(msOf(waiting?.nextSettlementAt))
  return (
    <TileFrame
      title="Oldest unsettled"
      to="/settlement"
      number={oldestMs === undefined ? '–' : ageText(oldestMs, now)}
    >
      <span className={isLate ? 'tile-text late' : 'tile-text'}>
        {oldestMs === undefined ? 'All payments are settled' : text}
      </span>
    </TileFrame>
  )
}

function dueText(dueMs: number | undefined): string {
  if (dueMs === undefined) return 'No settlement is due'
  return `Settles ${lagosDay(dueMs)} ${lagosClock(dueMs)} Lagos`
}

const weekClock = formatter(undefined, { weekday: 'short', ...CLOCK })

/** A figure of an hour; undefined: the hour has no data for it. */
type Figure = (hour: HourFigures) => number | undefined

/**
 * Compares a figure of the last whole hour with that of a week before: `▲ 8 % on last Mon 14:00`. Undefined without data
 * of a week ago.
 */
function compare(
  hours: readonly HourFigures[],
  weekBefore: readonly HourFigures[],
  figure: Figure,
): string | undefined {
  const hour = hours.at(-2)
  const before = weekBefore.at(-2)
  const startMs = msOf(before?.startsAt)
  if (hour === undefined || before === undefined || startMs === undefined) return undefined
  const [now, then] = [figure(hour), figure(before)]
  if (now === undefined || then === undefined || !weekBefore.some(figure)) return undefined
  return `${changeText(now, then)} on last ${weekClock(startMs)}`
}

/** `▲ 8 %` or `▼ 12 %`; a change from zero has no percentage. */
function changeText(now: number, then: number): string {
  if (now === then) return now === 0 ? 'None, as' : 'Same as'
  if (then === 0) return '▲ from none'
  const percent = (100 * (now - then)) / then
  const size = Math.abs(percent)
  const text = size < 1 ? '< 1' : size > 999 ? '> 999' : size.toFixed(0)
  return `${percent > 0 ? '▲' : '▼'} ${text} %`
}

/** The fraction of webhook attempts that receivers acknowledged, from 0 to 1; undefined: there was no attempt. */
function successOf(figures: HourFigures | undefined): number | undefined {
  if (figures === undefined || figures.attempts === 0n) return undefined
  return Math.min(1, Number(figures.delivered) / Number(figures.attempts))
}

/** `99.95 %`; `100 %` only without any failure. */
function percentText(part: number | undefined): string {
  if (part === undefined) return '–'
  if (part === 1) return '100 %'
  return `${(Math.floor(part * 10_000) / 100).toFixed(2)} %`
}

/** An age in a word or two: `2 d 4 h`. */
function ageText(fromMs: number, nowMs: number): string {
  const age = Math.max(0, nowMs - fromMs)
  if (age < 60_000) return '< 1 min'
  return durationText(age < HOUR ? Math.floor(age / 60_000) * 60_000 : age)
}
