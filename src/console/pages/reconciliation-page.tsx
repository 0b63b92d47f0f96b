import '../styles/figures.css'
import '../styles/reconciliation.css'
import { useQuery } from '@connectrpc/connect-query'
import {
  type ReconciliationRun,
  ReconciliationRunSchema,
} from '../../../gen/inflow/reconciliation/v1/reconciliation_run_pb.ts'
import { ReconciliationService } from '../../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { bankName } from '../format/enums.ts'
import { useMay } from '../session/session.tsx'
import { columnsOf } from '../ui/columns.tsx'
import { Table } from '../ui/list.tsx'
import { Failure, Page, Section, Waiting } from '../ui/page.tsx'
import { Status } from '../ui/values.tsx'
import { StatementWorkbench } from './statement-workbench.tsx'

/** A bank's statement beside what is recorded, and what the service reconciles by itself. */
export function ReconciliationPage() {
  const mayReconcile = useMay()(ReconciliationService.method.reconcile)
  return (
    <Page title="Reconciliation">
      {mayReconcile ? (
        <StatementWorkbench />
      ) : (
        <p className="soft">Comparing a statement needs a token with the scope admin.</p>
      )}
      <Section title="Runs">
        <Runs />
      </Section>
    </Page>
  )
}

/** How often a run's progress is read: no stream has it. */
const REFRESH_MS = 15_000

const RUN_COLUMNS = columnsOf(ReconciliationRunSchema, [
  ['Bank', ({ bank }) => <strong>{bankName(bank)}</strong>],
  ['Searches', 'scope'],
  ['State', (run) => <RunState run={run} />],
  ['Paid from', 'from'],
  ['to', 'to'],
  'missedCount',
  'nextAt',
])

/** The runs in which the service searches the banks for payments that were not notified. */
function Runs() {
  const read = useQuery(
    ReconciliationService.method.listReconciliationRuns,
    {},
    { refetchInterval: REFRESH_MS },
  )
  if (read.error) return <Failure error={read.error} onRetry={() => void read.refetch()} />
  if (read.isPending) return <Waiting rows={4} />
  const { runs } = read.data
  if (runs.length === 0) {
    return <p className="soft">No bank is live: the service searches live banks by itself.</p>
  }
  return (
    <Table
      label="Runs"
      columns={RUN_COLUMNS}
      rows={runs}
      keyOf={({ bank, scope }) => `${bank} ${scope}`}
    />
  )
}

function RunState({ run: { inProgress, failureCount } }: { readonly run: ReconciliationRun }) {
  if (failureCount > 0) return <Status tone="bad">{`Failed ${failureCount} times`}</Status>
  if (inProgress) return <Status tone="waiting">In progress</Status>
  return <Status tone="good">Finished</Status>
}
