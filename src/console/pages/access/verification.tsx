import { ConnectError, createClient } from '@connectrpc/connect'
import { useTransport } from '@connectrpc/connect-query'
import { useEffect, useRef, useState } from 'react'
import {
  AdminService,
  type VerifyAuditResponse,
} from '../../../../gen/inflow/admin/v1/admin_service_pb.ts'
import { count } from '../../format/money.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Failure } from '../../ui/lists/failure.tsx'
import { Status } from '../../ui/status.tsx'

type State =
  | { readonly kind: 'idle' }
  | { readonly kind: 'running' | 'stopped' | 'done'; readonly at: VerifyAuditResponse | undefined }
  | {
      readonly kind: 'failed'
      readonly at: VerifyAuditResponse | undefined
      readonly error: unknown
    }

/** Verifies the hash chain of the whole log, with progress; what was interrupted continues where it stopped. */
export function Verification() {
  const { state, start, stop } = useVerification()
  const at = state.kind === 'idle' ? undefined : state.at
  const canContinue = (state.kind === 'stopped' || state.kind === 'failed') && at !== undefined
  return (
    <div className="verification" aria-live="polite">
      {state.kind === 'running' ? (
        <>
          <progress
            aria-label="Verified entries"
            max={Number(at?.headNumber ?? 1n)}
            value={Number(at?.verifiedNumber ?? 0n)}
          />
          <span>
            {count(at?.verifiedNumber ?? 0n)} of {count(at?.headNumber ?? 0n)}
          </span>
          <Button onClick={stop}>Stop</Button>
        </>
      ) : (
        <Button onClick={() => start(canContinue ? (at?.cursor ?? '') : '')}>
          {canContinue ? `Continue after #${at?.verifiedNumber}` : 'Verify the log'}
        </Button>
      )}
      {state.kind === 'done' && at && <Result of={at} />}
      {state.kind === 'failed' && <Failure error={state.error} />}
    </div>
  )
}

function Result({
  of: { firstBreak, verifiedNumber, verifiedHash },
}: {
  readonly of: VerifyAuditResponse
}) {
  if (firstBreak) {
    return (
      <>
        <Status tone="bad">Not intact</Status>
        <span>
          Entry #{String(firstBreak.number)} {firstBreak.problem}. Entries up to #
          {String(verifiedNumber)} are intact.
        </span>
      </>
    )
  }
  return (
    <>
      <Status tone="good">Intact</Status>
      <span title={verifiedHash}>
        All {count(verifiedNumber)} entries are as the service wrote them.
      </span>
    </>
  )
}

function useVerification() {
  const transport = useTransport()
  const [state, setState] = useState<State>({ kind: 'idle' })
  const running = useRef<AbortController>(undefined)
  useEffect(() => () => running.current?.abort(), [])
  const start = async (from: string) => {
    const ended = new AbortController()
    running.current = ended
    let at: VerifyAuditResponse | undefined
    setState({ kind: 'running', at })
    try {
      const stream = createClient(AdminService, transport).verifyAudit(
        { from },
        { signal: ended.signal, timeoutMs: 0 },
      )
      for await (const progress of stream) {
        at = progress
        setState({ kind: 'running', at })
      }
      setState({ kind: 'done', at })
    } catch (error) {
      if (ended.signal.aborted) setState({ kind: 'stopped', at })
      else setState({ kind: 'failed', at, error: ConnectError.from(error) })
    }
  }
  return {
    state,
    start: (from: string) => void start(from),
    stop: () => running.current?.abort(),
  }
}
