import { useQuery } from '@connectrpc/connect-query'
import type { ReactNode } from 'react'
import {
  type BankState,
  BankStateSchema,
  type Health,
  StandbySchema,
  type Waiting as WaitingFigures,
} from '../../../gen/inflow/overview/v1/figures_pb.ts'
import { OverviewService } from '../../../gen/inflow/overview/v1/overview_service_pb.ts'
import { bankName } from '../format/enums.ts'
import { count } from '../format/money.ts'
import { durationText } from '../format/time.ts'
import { useService } from '../session/session.tsx'
import { useViewScope } from '../session/view-scope.tsx'
import { columnsOf } from '../ui/columns.tsx'
import { Table } from '../ui/list.tsx'
import { Empty, Loaded, Page, Section } from '../ui/page.tsx'
import { Dash, Figure, Status, Time } from '../ui/values.tsx'

/** How often the health is read. It is polled, because no stream has it; a hidden tab does not poll. */
const REFRESH_MS = 10_000

/** The health of the service, its database and its banks, as the responding instance sees it. */
export function HealthPage() {
  const { live } = useViewScope()
  const read = useQuery(
    OverviewService.method.getOverview,
    { test: !live },
    { refetchInterval: REFRESH_MS },
  )
  const { at } = read.data ?? {}
  const readAt = at && (
    <span className="faint">
      Read <Time at={at} />
    </span>
  )
  return (
    <Page title="Health" actions={readAt}>
      {read.error && <Readiness reasons={['it does not respond']} />}
      <Loaded read={read} rows={8}>
        {({ health, banks, waiting }) =>
          health === undefined ? (
            <Empty title="The health of the service is for its operators">
              Your token is restricted to businesses.
            </Empty>
          ) : (
            <>
              {!read.error && <Readiness reasons={health.notReady} />}
              <Figures health={health} waiting={waiting} />
              <Section title="Standbys">
                {health.standbys.length === 0 ? (
                  <p className="soft">No standby is connected to the database.</p>
                ) : (
                  <Table
                    label="Standbys"
                    columns={STANDBY_COLUMNS}
                    rows={health.standbys}
                    keyOf={({ name, state }) => `${name} ${state}`}
                  />
                )}
              </Section>
              <Section title="Banks">
                <Table
                  label="Banks"
                  columns={live ? BANK_COLUMNS : TEST_BANK_COLUMNS}
                  rows={banks}
                  keyOf={({ bank, connector }) => `${bank} ${connector}`}
                />
              </Section>
            </>
          )
        }
      </Loaded>
    </Page>
  )
}

function Readiness({ reasons }: { readonly reasons: readonly string[] }) {
  const isReady = reasons.length === 0
  return (
    <div className={`readiness ${isReady ? 'good' : 'bad'}`} role="status">
      <Status tone={isReady ? 'good' : 'bad'}>{isReady ? 'Ready' : 'Not ready'}</Status>
      <span>{isReady ? 'The service takes calls and notifications.' : reasons.join('; ')}</span>
    </div>
  )
}

/** The limits from which a figure is unusual, and from which it is bad. */
const LIMITS = {
  databaseMs: [50, 500],
  sequencerMs: [2_000, 30_000],
  events: [1_000, 100_000],
  deliveries: [1_000, 10_000],
} as const

interface MeasuredProps {
  readonly title: string
  readonly value: string
  readonly note: ReactNode
  readonly measured: readonly [value: bigint | number, limits: readonly [number, number]]
  /** The text for an unusual figure. */
  readonly unusual?: string
}

function Figures({ health, waiting }: { health: Health; waiting: WaitingFigures | undefined }) {
  const { databaseLatencyMs, sequencerLagMs, uncountedEvents, undispatchedEvents } = health
  const due = waiting?.dueDeliveries ?? 0
  const service = useService()
  const oldest = waiting?.oldestDeliveryDueAt && (
    <>
      the oldest since <Time at={waiting.oldestDeliveryDueAt} />
    </>
  )
  return (
    <ul className="figures">
      <Measured
        title="Database"
        value={durationText(databaseLatencyMs)}
        note={`PostgreSQL ${health.postgresVersion}`}
        measured={[databaseLatencyMs, LIMITS.databaseMs]}
        unusual="Slow"
      />
      <Measured
        title="Sequencer lag"
        value={durationText(Number(sequencerLagMs))}
        note="since the oldest event waits for its number"
        measured={[sequencerLagMs, LIMITS.sequencerMs]}
      />
      <Measured
        title="Uncounted events"
        value={count(uncountedEvents)}
        note="not in the figures of the overview yet"
        measured={[uncountedEvents, LIMITS.events]}
      />
      <Measured
        title="Undispatched events"
        value={count(undispatchedEvents)}
        note="without deliveries yet"
        measured={[undispatchedEvents, LIMITS.events]}
      />
      <Measured
        title="Deliveries due"
        value={due >= LIMITS.deliveries[1] ? `${count(due)}+` : count(due)}
        note={oldest ?? 'none waits'}
        measured={[due, LIMITS.deliveries]}
      />
      <Figure title="Version" note={service?.embedded ? 'with its own database' : 'of the service'}>
        {health.version}
      </Figure>
    </ul>
  )
}

function Measured({ title, value, note, measured, unusual = 'Behind' }: MeasuredProps) {
  const [size, [least, bad]] = measured
  const status = size >= least && (
    <Status tone={size >= bad ? 'bad' : 'waiting'}>{size >= bad ? 'Needs you' : unusual}</Status>
  )
  return (
    <Figure
      title={
        <>
          {title}
          {status}
        </>
      }
      note={note}
    >
      {value}
    </Figure>
  )
}

const STANDBY_COLUMNS = columnsOf(StandbySchema, [
  ['Standby', 'name'],
  [
    'State',
    ({ state }) => <Status tone={state === 'streaming' ? 'good' : 'waiting'}>{state}</Status>,
  ],
  ['Commits', ({ syncState }) => syncText(syncState)],
  ['Replay lag', ({ replayLagMs }) => durationText(Number(replayLagMs)), 'number'],
])

function syncText(state: string): string {
  if (state === 'async') return 'do not wait for it'
  return state === 'potential' ? 'may wait for it' : 'wait for it'
}

/** The columns of banks: whether they respond, and when they last did. */
const BANK_COLUMNS = columnsOf(BankStateSchema, [
  ['Bank', ({ bank }) => <strong>{bankName(bank)}</strong>],
  ['Calls', breakerShown],
  ['Connector', ({ connector }) => (connector === 'live' ? 'the bank itself' : 'sandbox')],
  ['Last notification', 'lastNotificationAt'],
  ['Last payment', 'lastPaymentAt'],
  ['Reconciled to', reconciledShown],
  [
    'Openings pending',
    ({ pendingOpenings }) => `${pendingOpenings}${pendingOpenings >= 1_000 ? '+' : ''}`,
    'number',
  ],
])

const TEST_BANK_COLUMNS = BANK_COLUMNS.filter(({ title }) => title !== 'Reconciled to')

function breakerShown({ breaker, breakerSince, accessDenied }: BankState) {
  if (accessDenied) {
    return (
      <>
        <Status tone="bad">Denied</Status>{' '}
        <span className="faint">credentials or address: see inflow doctor</span>
      </>
    )
  }
  if (breaker === 'closed') return <Status tone="good">Succeed</Status>
  const isOpen = breaker === 'open'
  return (
    <>
      <Status tone={isOpen ? 'bad' : 'waiting'}>{isOpen ? 'Stopped' : 'Being tried'}</Status>{' '}
      <span className="faint">
        since <Time at={breakerSince} />
      </span>
    </>
  )
}

/** How far the bank's list of payments is reconciled. */
function reconciledShown({ reconciliationRuns }: BankState) {
  const [run] = reconciliationRuns
  if (run === undefined) return <Dash />
  const failures = reconciliationRuns.reduce((sum, each) => sum + each.failureCount, 0)
  return (
    <>
      <Time at={run.to} /> {failures > 0 && <Status tone="bad">{`${failures} failures`}</Status>}
    </>
  )
}
