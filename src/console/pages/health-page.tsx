import '../styles/figures.css'
import '../styles/health.css'
import { useQuery } from '@connectrpc/connect-query'
import type { ReactNode } from 'react'
import type {
  BankState,
  Health,
  Standby,
  Waiting as WaitingFigures,
} from '../../../gen/inflow/overview/v1/figures_pb.ts'
import { OverviewService } from '../../../gen/inflow/overview/v1/overview_service_pb.ts'
import { bankName } from '../format/banks.ts'
import { count } from '../format/money.ts'
import { durationText } from '../format/time.ts'
import { useService } from '../session/session.tsx'
import { useViewScope } from '../session/view-scope.tsx'
import { type Column, Table } from '../ui/list.tsx'
import { Empty, Failure, Page, Section, Waiting } from '../ui/page.tsx'
import { Status, Time } from '../ui/values.tsx'

/** How often the health is read: no stream has it. A hidden tab does not read it. */
const REFRESH_MS = 10_000

/** Whether the service, its database and its banks work, as the instance that answers sees it. */
export function HealthPage() {
  const { live } = useViewScope()
  const read = useQuery(
    OverviewService.method.getOverview,
    { test: !live },
    { refetchInterval: REFRESH_MS },
  )
  const { health, banks, waiting, at } = read.data ?? {}
  return (
    <Page
      title="Health"
      actions={
        at && (
          <span className="faint">
            Read <Time at={at} />
          </span>
        )
      }
    >
      {read.error && (
        <>
          <Readiness reasons={['it does not answer']} />
          <Failure error={read.error} onRetry={() => void read.refetch()} />
        </>
      )}
      {read.isPending && <Waiting rows={8} />}
      {read.data && health === undefined && (
        <Empty title="The health of the service is for its operators">
          Your token is restricted to businesses.
        </Empty>
      )}
      {health && !read.error && <Readiness reasons={health.notReady} />}
      {health && <Figures health={health} waiting={waiting} />}
      {health && <Standbys standbys={health.standbys} />}
      {health && <BankStates banks={banks ?? []} live={live} />}
    </Page>
  )
}

function Readiness({ reasons }: { readonly reasons: readonly string[] }) {
  return (
    <div className={`readiness ${reasons.length === 0 ? 'good' : 'bad'}`} role="status">
      <Status tone={reasons.length === 0 ? 'good' : 'bad'}>
        {reasons.length === 0 ? 'Ready' : 'Not ready'}
      </Status>
      <span>
        {reasons.length === 0 ? 'The service takes calls and notifications.' : reasons.join('; ')}
      </span>
    </div>
  )
}

/** From here on a figure is not usual, and from here on it is bad. */
const LIMITS = {
  databaseMs: [50, 500],
  sequencerMs: [2_000, 30_000],
  events: [1_000, 100_000],
  deliveries: [1_000, 10_000],
} as const

function stateOf(value: bigint | number, [unusual, bad]: readonly [number, number]): FigureState {
  if (value >= bad) return 'bad'
  return value >= unusual ? 'waiting' : 'good'
}

function Figures({
  health,
  waiting,
}: {
  readonly health: Health
  readonly waiting: WaitingFigures | undefined
}) {
  const due = waiting?.dueDeliveries ?? 0
  const service = useService()
  return (
    <ul className="figures">
      <Figure
        title="Database"
        value={durationText(health.databaseLatencyMs)}
        note={`PostgreSQL ${health.postgresVersion}`}
        state={stateOf(health.databaseLatencyMs, LIMITS.databaseMs)}
      />
      <Figure
        title="Sequencer lag"
        value={durationText(Number(health.sequencerLagMs))}
        note="since the oldest event waits for its number"
        state={stateOf(health.sequencerLagMs, LIMITS.sequencerMs)}
      />
      <Figure
        title="Uncounted events"
        value={count(health.uncountedEvents)}
        note="not in the figures of the overview yet"
        state={stateOf(health.uncountedEvents, LIMITS.events)}
      />
      <Figure
        title="Undispatched events"
        value={count(health.undispatchedEvents)}
        note="without deliveries yet"
        state={stateOf(health.undispatchedEvents, LIMITS.events)}
      />
      <Figure
        title="Deliveries due"
        value={due >= LIMITS.deliveries[1] ? `${count(due)}+` : count(due)}
        note={
          waiting?.oldestDeliveryDueAt ? (
            <>
              the oldest since <Time at={waiting.oldestDeliveryDueAt} />
            </>
          ) : (
            'none waits'
          )
        }
        state={stateOf(due, LIMITS.deliveries)}
      />
      <Figure
        title="Version"
        value={health.version}
        note={service?.embedded ? 'with its own database' : 'of the service'}
        state="none"
      />
    </ul>
  )
}

const STANDBY_COLUMNS: readonly Column<Standby>[] = [
  { key: 'name', title: 'Standby', render: ({ name }) => name },
  {
    key: 'state',
    title: 'State',
    render: ({ state }) => (
      <Status tone={state === 'streaming' ? 'good' : 'waiting'}>{state}</Status>
    ),
  },
  { key: 'sync', title: 'Commits', render: ({ syncState }) => syncText(syncState) },
  {
    key: 'lag',
    title: 'Replay lag',
    isNumber: true,
    render: ({ replayLagMs }) => durationText(Number(replayLagMs)),
  },
]

function syncText(state: string): string {
  if (state === 'async') return 'do not wait for it'
  return state === 'potential' ? 'may wait for it' : 'wait for it'
}

function Standbys({ standbys }: { readonly standbys: readonly Standby[] }) {
  return (
    <Section title="Standbys">
      {standbys.length === 0 ? (
        <p className="soft">No standby is connected to the database.</p>
      ) : (
        <Table
          label="Standbys"
          columns={STANDBY_COLUMNS}
          rows={standbys}
          keyOf={({ name, state }) => `${name} ${state}`}
        />
      )}
    </Section>
  )
}

/** `none`: the figure can be neither good nor bad. */
type FigureState = 'good' | 'waiting' | 'bad' | 'none'

const FIGURE_WORDS = { waiting: 'Behind', bad: 'Needs you' } as const

/** One large figure, with what it means below. */
function Figure({
  title,
  value,
  note,
  state,
}: {
  readonly title: string
  readonly value: string
  readonly note: ReactNode
  readonly state: FigureState
}) {
  return (
    <li className="figure">
      <span className="figure-title">
        {title}
        {(state === 'waiting' || state === 'bad') && (
          <Status tone={state}>{FIGURE_WORDS[state]}</Status>
        )}
      </span>
      <span className="figure-value">{value}</span>
      <span className="faint">{note}</span>
    </li>
  )
}

/** The banks: whether they answer, and when they were last heard of. */
function BankStates({
  banks,
  live,
}: {
  readonly banks: readonly BankState[]
  readonly live: boolean
}) {
  const columns = live ? BANK_COLUMNS : BANK_COLUMNS.filter(({ key }) => key !== 'reconciliation')
  return (
    <Section title="Banks">
      <Table
        label="Banks"
        columns={columns}
        rows={banks}
        keyOf={({ bank, connector }) => `${bank} ${connector}`}
      />
    </Section>
  )
}

const BANK_COLUMNS: readonly Column<BankState>[] = [
  { key: 'bank', title: 'Bank', render: ({ bank }) => <strong>{bankName(bank)}</strong> },
  { key: 'state', title: 'Calls', render: (bank) => <Breaker bank={bank} /> },
  {
    key: 'connector',
    title: 'Connector',
    render: ({ connector }) => (connector === 'live' ? 'the bank itself' : 'sandbox'),
  },
  {
    key: 'notification',
    title: 'Last notification',
    render: ({ lastNotificationAt }) => <Time at={lastNotificationAt} />,
  },
  {
    key: 'payment',
    title: 'Last payment',
    render: ({ lastPaymentAt }) => <Time at={lastPaymentAt} />,
  },
  {
    key: 'reconciliation',
    title: 'Reconciled to',
    render: (bank) => <Reconciled bank={bank} />,
  },
  {
    key: 'openings',
    title: 'Openings pending',
    isNumber: true,
    render: ({ pendingOpenings }) => `${pendingOpenings}${pendingOpenings >= 1_000 ? '+' : ''}`,
  },
]

function Breaker({ bank: { breaker, breakerSince, accessDenied } }: { readonly bank: BankState }) {
  if (accessDenied) {
    return (
      <>
        <Status tone="bad">Denied</Status>{' '}
        <span className="faint">credentials or address: see inflow doctor</span>
      </>
    )
  }
  if (breaker === 'closed') return <Status tone="good">Succeed</Status>
  return (
    <>
      <Status tone={breaker === 'open' ? 'bad' : 'waiting'}>
        {breaker === 'open' ? 'Stopped' : 'Being tried'}
      </Status>{' '}
      <span className="faint">
        since <Time at={breakerSince} />
      </span>
    </>
  )
}

/** How far the bank's list of payments was compared with the recorded ones. */
function Reconciled({ bank: { reconciliationRuns } }: { readonly bank: BankState }) {
  const [run] = reconciliationRuns
  if (run === undefined) return <span className="faint">–</span>
  const failures = reconciliationRuns.reduce((sum, each) => sum + each.failureCount, 0)
  return (
    <>
      <Time at={run.to} />
      {failures > 0 && (
        <>
          {' '}
          <Status tone="bad">{`${failures} failures`}</Status>
        </>
      )}
    </>
  )
}
