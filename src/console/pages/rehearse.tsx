import { ConnectError, createClient } from '@connectrpc/connect'
import { useTransport } from '@connectrpc/connect-query'
import { useEffect, useRef, useState } from 'react'
import type { Endpoint } from '../../../gen/inflow/webhook/v1/endpoint_pb.ts'
import {
  type RehearsalStep,
  type RehearsalSummary,
  RehearsalVerdict,
} from '../../../gen/inflow/webhook/v1/rehearsal_pb.ts'
import { WebhookService } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import type { Tone } from '../format/enums.ts'
import { useMay } from '../session/session.tsx'
import { Button } from '../ui/button.tsx'
import { Dialog } from '../ui/dialog.tsx'
import { Failure } from '../ui/page.tsx'
import { Status } from '../ui/values.tsx'

/** Sends an endpoint of test mode what the world will send, and shows each step as it is done. Live ones are refused. */
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

function RehearsalDialog({
  endpointId,
  onClose,
}: {
  readonly endpointId: string
  readonly onClose: () => void
}) {
  const { rehearsal, start } = useRehearsal(endpointId)
  const { state, steps, summary, error } = rehearsal
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
          <Button kind="primary" onClick={start}>
            Rehearse
          </Button>
        )}
      </div>
    </Dialog>
  )
}

const VERDICTS: Readonly<Record<number, readonly [tone: Tone, label: string]>> = {
  [RehearsalVerdict.PASSED]: ['good', 'Passed'],
  [RehearsalVerdict.WARNING]: ['waiting', 'Warning'],
  [RehearsalVerdict.FAILED]: ['bad', 'Failed'],
  [RehearsalVerdict.SKIPPED]: ['neutral', 'Skipped'],
}

function Step({ step }: { readonly step: RehearsalStep }) {
  const [tone, label] = VERDICTS[step.verdict] ?? ['neutral', 'Unknown']
  return (
    <li>
      <header>
        <strong>{step.name}</strong>
        <Status tone={tone}>{label}</Status>
      </header>
      <span>{step.happened}</span>
      <span className="faint">Expected {step.expected}</span>
      {step.note !== '' && <span className="faint">{step.note}.</span>}
      {step.responseBody !== '' && <pre>{step.responseBody}</pre>}
    </li>
  )
}

interface Rehearsal {
  readonly state: 'idle' | 'running' | 'ended'
  readonly steps: readonly RehearsalStep[]
  readonly summary?: RehearsalSummary
  readonly error?: ConnectError
}

/** A rehearsal, which ends when its dialog is closed. */
function useRehearsal(endpointId: string) {
  const transport = useTransport()
  const [rehearsal, setRehearsal] = useState<Rehearsal>({ state: 'idle', steps: [] })
  const ended = useRef(new AbortController())
  useEffect(() => () => ended.current.abort(), [])
  const run = async (): Promise<void> => {
    ended.current = new AbortController()
    const { signal } = ended.current
    let now: Rehearsal = { state: 'running', steps: [] }
    setRehearsal(now)
    try {
      const client = createClient(WebhookService, transport)
      for await (const { progress } of client.rehearse({ endpointId }, { signal, timeoutMs: 0 })) {
        if (progress.case === 'step') now = { ...now, steps: [...now.steps, progress.value] }
        if (progress.case === 'summary') now = { ...now, summary: progress.value }
        setRehearsal(now)
      }
      setRehearsal({ ...now, state: 'ended' })
    } catch (error) {
      if (!signal.aborted) setRehearsal({ ...now, state: 'ended', error: ConnectError.from(error) })
    }
  }
  return { rehearsal, start: () => void run() }
}
