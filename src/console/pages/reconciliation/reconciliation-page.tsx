import { ReconciliationService } from '../../../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { useMay } from '../../session/session.tsx'
import { Page, Section } from '../../ui/page.tsx'
import { Runs } from './runs.tsx'
import { StatementWorkbench } from './statement-workbench.tsx'
import '../../styles/figures.css'
import '../../styles/reconciliation.css'

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
