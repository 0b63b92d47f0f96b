import { useState } from 'react'
import type { Endpoint } from '../../../gen/inflow/webhook/v1/endpoint_pb.ts'
import {
  type RehearsalStep,
  type RehearsalSummary,
  RehearsalVerdictSchema,
} from '../../../gen/inflow/webhook/v1/rehearsal_pb.ts'
import {
  type RehearseResponse,
  WebhookService,
} from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { useMay } from '../session/session.tsx'
import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Failure } from '../ui/page.tsx'
import { useProgress } from '../ui/progress.ts'
import { EnumStatus } from '../ui/values.tsx'

/** Sends difficult deliveries to an endpoint of test mode, and shows each step as it is done. Live endpoints are refused. */
export function Rehearse({ endpoint: { id, live } }: { readonly endpoint: Endpoint }) {
  const [isOpen, setOpen] = useState(false)
  const mayCall = useMay()(WebhookService.method.rehearse)
  if (live || !mayCall) return null
  return (
    <>
      <Button onClick={() => setOpen(true)}>Rehearse</Button>
      {isOpen && <RehearsalDialog endpointId={id} onClose={() => setOpen(false)} />}
    </>
  )
}

function RehearsalDialog({ endpointId, onClose }: { endpointId: string; onClose: () => void }) {
  const { state, at, error, start } = useProgress(
    WebhookService,
    { steps: [] } as Rehearsal,
    (client, _from, options) => client.rehearse({ endpointId }, options),
    addProgress,
  )
  const { steps, summary } = at
  return (
    <Dialog title="Rehearse" isOpen onClose={onClose} mustDecide={state === 'running'}>
      {state === 'idle' ? (
        <p>
          Sends the receiver about 210 requests: payments that never happened, repeats, wrong
          signatures, a reversal and a burst. A receiver credits such payments, so let it be one
          whose books do not matter.
        </p>
      ) : (
        <ol className="rehearsal" aria-label="Steps" aria-live="polite">
          {steps.map((step) => (
            <Step key={step.name} step={step} />
          ))}
          {state === 'running' && (
            <li ref={(element) => element?.scrollIntoView({ block: 'nearest' })} className="faint">
              Waiting for the receiver…
            </li>
          )}
        </ol>
      )}
      {summary && (
        <div
          ref={(element) => element?.scrollIntoView({ block: 'nearest' })}
          role="status"
          className="result rehearsal-end"
        >
          <p>{summary.conclusion}</p>
          <p>Its books should show: {summary.books}</p>
        </div>
      )}
      {error !== undefined && <Failure error={error} />}
      <div className="dialog-buttons">
        <Button onClick={onClose}>{state === 'running' ? 'Stop' : 'Close'}</Button>
        {state === 'idle' && (
          <Button kind="primary" onClick={() => start()}>
            Rehearse
          </Button>
        )}
      </div>
    </Dialog>
  )
}

function Step({ step }: { readonly step: RehearsalStep }) {
  return (
    <li>
      <header>
        <strong>{step.name}</strong>
        <EnumStatus of={RehearsalVerdictSchema} value={step.verdict} />
      </header>
      <span>{step.happened}</span>
      <span className="faint">Expected {step.expected}</span>
      {step.note !== '' && <span className="faint">{step.note}.</span>}
      {step.responseBody !== '' && <pre>{step.responseBody}</pre>}
    </li>
  )
}

interface Rehearsal {
  readonly steps: readonly RehearsalStep[]
  readonly summary?: RehearsalSummary
}

function addProgress(now: Rehearsal, { progress }: RehearseResponse): Rehearsal {
  if (progress.case === 'step') return { ...now, steps: [...now.steps, progress.value] }
  return progress.case === 'summary' ? { ...now, summary: progress.value } : now
}
