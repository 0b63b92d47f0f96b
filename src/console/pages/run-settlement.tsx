import { createClient } from '@connectrpc/connect'
import { useTransport } from '@connectrpc/connect-query'
import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import {
  type Settlement,
  SettlementStatus,
} from '../../../gen/inflow/settlement/v1/settlement_pb.ts'
import { SettlementService } from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { count, naira } from '../format/money.ts'
import { durationText } from '../format/time.ts'
import { useViewScope } from '../session/view-scope.tsx'
import { Button } from '../ui/button.tsx'
import { useNow } from '../ui/clock.ts'
import { Dialog } from '../ui/dialog.tsx'
import { Facts, Failure } from '../ui/page.tsx'
import { PageLink } from '../ui/values.tsx'

/** Settles what is due, after a confirmation, and shows how far it is. */
export function RunSettlement({
  businessId,
}: {
  /** Empty: every business that is due. */
  readonly businessId: string
}) {
  const [isOpen, setOpen] = useState(false)
  const [isForced, setForced] = useState(false)
  const { run, start, reset } = useRun(businessId)
  const whose = businessId === '' ? 'of every business' : 'of this business'
  return (
    <>
      <Button
        kind="primary"
        onClick={() => {
          // A run that goes on is shown again.
          if (run.state !== 'running') reset()
          setOpen(true)
        }}
      >
        Settle now
      </Button>
      <Dialog title="Settle now" isOpen={isOpen} onClose={() => setOpen(false)}>
        {run.state === 'idle' ? (
          <>
            <p>
              Makes the payments {whose} available that are {isForced ? 'received' : 'due'}, less
              their fees. It cannot be undone.
            </p>
            {businessId !== '' && (
              <label className="choice">
                <input
                  type="checkbox"
                  checked={isForced}
                  onChange={(event) => setForced(event.target.checked)}
                />{' '}
                Also payments that are not due yet
              </label>
            )}
          </>
        ) : (
          <RunProgress run={run} />
        )}
        {run.error !== undefined && (
          <Failure error={run.error} onRetry={() => void start(isForced)} />
        )}
        <div className="dialog-buttons">
          <Button onClick={() => setOpen(false)}>
            {run.state === 'idle' ? 'Cancel' : 'Close'}
          </Button>
          {run.state === 'idle' && (
            <Button kind="primary" onClick={() => void start(isForced && businessId !== '')}>
              Settle
            </Button>
          )}
        </div>
      </Dialog>
    </>
  )
}

/** The most settlements that are linked. */
const SHOWN_MAX = 10

/** How far a run is, and how fast. */
function RunProgress({ run }: { readonly run: Run }) {
  const { settlements, startedMs, endedMs, state } = run
  const now = useNow()
  const elapsedMs = Math.max(1, (endedMs ?? now) - startedMs)
  const payments = settlements.reduce((sum, each) => sum + each.transactionCount, 0n)
  const net = settlements.reduce((sum, each) => sum + each.netMinor, 0n)
  const done = settlements.filter(({ status }) => status === SettlementStatus.COMPLETED).length
  const percent =
    settlements.reduce((sum, { percentDone }) => sum + percentDone, 0) /
    Math.max(1, settlements.length)
  return (
    <>
      <progress
        aria-label="Settled"
        max={100}
        {...((state === 'done' || settlements.length > 0) && {
          value: state === 'done' ? 100 : percent,
        })}
      />
      <p role="status">
        {state === 'done' && settlements.length === 0 && 'Nothing was due.'}
        {state === 'done' && settlements.length > 0 && 'Everything that was due is settled.'}
        {state === 'running' && 'Settling… It continues if you close this.'}
      </p>
      <Facts
        facts={[
          ['Settlements', `${done} of ${settlements.length}`],
          ['Payments', count(payments)],
          ['Net', naira(net)],
          ['Rate', `${count((payments * 1_000n) / BigInt(elapsedMs))} payments a second`],
          ['Took', durationText(elapsedMs)],
        ]}
      />
      <ul>
        {settlements.slice(0, SHOWN_MAX).map(({ id, percentDone }) => (
          <li key={id}>
            <PageLink to={`/settlement/${id}`}>{id}</PageLink> {percentDone} %
          </li>
        ))}
      </ul>
    </>
  )
}

/** A request to settle, which runs for as long as it needs. */
interface Run {
  readonly state: 'idle' | 'running' | 'done'
  readonly requestId: string
  readonly startedMs: number
  readonly endedMs: number | undefined
  readonly settlements: readonly Settlement[]
  /** Why the last call failed. The settlement continues in the background; a retry reads on. */
  readonly error: unknown
}

const IDLE: Run = {
  state: 'idle',
  requestId: '',
  startedMs: 0,
  endedMs: undefined,
  settlements: [],
  error: undefined,
}

/** Calls until all is settled: a call returns within about 20 seconds, and its repeat reads the progress. */
function useRun(businessId: string) {
  const [run, setRun] = useState(IDLE)
  const transport = useTransport()
  const queries = useQueryClient()
  const { live } = useViewScope()
  const start = async (force: boolean): Promise<void> => {
    const requestId = run.requestId || `console-${crypto.randomUUID()}`
    const startedMs = run.startedMs || Date.now()
    const running = { ...run, requestId, startedMs, error: undefined, state: 'running' } as const
    setRun(running)
    const client = createClient(SettlementService, transport)
    try {
      for (let isCompleted = false; !isCompleted; ) {
        const response = await client.settle({ businessId, requestId, force, test: !live })
        isCompleted = response.completed
        setRun({
          ...running,
          settlements: response.settlements,
          ...(isCompleted && { state: 'done', endedMs: Date.now() }),
        })
      }
      void queries.invalidateQueries()
    } catch (error) {
      setRun((before) => ({ ...before, error }))
    }
  }
  return { run, start, reset: () => setRun(IDLE) }
}
