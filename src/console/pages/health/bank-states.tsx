import type { BankState } from '../../../../gen/inflow/overview/v1/figures_pb.ts'
import { bankName } from '../../format/banks.ts'
import { type Column, Table } from '../../ui/lists/table.tsx'
import { Section } from '../../ui/page.tsx'
import { Status } from '../../ui/status.tsx'
import { Time } from '../../ui/values.tsx'

/** The banks: whether they answer, and when they were last heard of. */
export function BankStates({
  banks,
  live,
}: {
  readonly banks: readonly BankState[]
  readonly live: boolean
}) {
  const columns = live ? COLUMNS : COLUMNS.filter(({ key }) => key !== 'reconciliation')
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

const COLUMNS: readonly Column<BankState>[] = [
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
