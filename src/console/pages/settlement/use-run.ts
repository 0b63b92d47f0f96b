import { createClient } from '@connectrpc/connect'
import { useTransport } from '@connectrpc/connect-query'
import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import type { Settlement } from '../../../../gen/inflow/settlement/v1/settlement_pb.ts'
import { SettlementService } from '../../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { useViewScope } from '../../session/view-scope.ts'

/** A request to settle, which runs for as long as it needs. */
export interface Run {
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
export function useRun(businessId: string) {
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
