import type { BankState } from '../../../../gen/inflow/overview/v1/figures_pb.ts'
import type { ReconciliationRun } from '../../../../gen/inflow/reconciliation/v1/reconciliation_run_pb.ts'
import { bankName } from '../../format/banks.ts'
import { msOf } from '../../format/time.ts'
import { type Column, Table } from '../../ui/lists/table.tsx'
import { Section } from '../../ui/page.tsx'
import { Status } from '../../ui/status.tsx'
import { Time } from '../../ui/values.tsx'

const COLUMNS: readonly Column<BankState>[] = [
  { key: 'bank', title: 'Bank', render: ({ bank }) => <strong>{bankName(bank)}</strong> },
  { key: 'state', title: 'State', render: (bank) => <BankStatus bank={bank} /> },
  {
    key: 'notified',
    title: 'Last notification',
    isWide: true,
    render: ({ lastNotificationAt }) => <Time at={lastNotificationAt} />,
  },
  {
    key: 'payment',
    title: 'Last payment',
    render: ({ lastPaymentAt }) => <Time at={lastPaymentAt} />,
  },
  {
    key: 'reconciled',
    title: 'Last reconciliation',
    isWide: true,
    render: ({ reconciliationRuns }) => <LastRun runs={reconciliationRuns} />,
  },
  {
    key: 'openings',
    title: 'Openings pending',
    isNumber: true,
    render: ({ pendingOpenings }) =>
      pendingOpenings >= 1_000 ? '1,000+' : String(pendingOpenings),
  },
]

/** The banks as four rows. */
export function Banks({ banks }: { readonly banks: readonly BankState[] }) {
  return (
    <Section title="Banks">
      <Table label="Banks" columns={COLUMNS} rows={banks} keyOf={({ bank }) => String(bank)} />
    </Section>
  )
}

/** Whether calls to the bank get through, and whether it is the real bank. */
function BankStatus({ bank }: { readonly bank: BankState }) {
  const { connector, breaker, breakerSince, accessDenied } = bank
  const kind = connector === 'sandbox' ? 'Sandbox' : 'Live'
  if (accessDenied) return <Status tone="bad">Denies access</Status>
  if (breaker === 'closed') return <Status tone="good">{kind}</Status>
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

/** The run that ended last, or that is in progress. */
function LastRun({ runs }: { readonly runs: readonly ReconciliationRun[] }) {
  const failing = runs.find(({ failureCount }) => failureCount > 0)
  const run = failing ?? runs[0]
  // `to` is `from` if none has begun.
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
