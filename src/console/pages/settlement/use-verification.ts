import { createClient } from '@connectrpc/connect'
import { useTransport } from '@connectrpc/connect-query'
import { useEffect, useRef, useState } from 'react'
import type { Discrepancy } from '../../../../gen/inflow/settlement/v1/settlement_pb.ts'
import { SettlementService } from '../../../../gen/inflow/settlement/v1/settlement_service_pb.ts'

/** A verification of the ledger, as far as it is. */
interface Verification {
  readonly state: 'idle' | 'running' | 'interrupted' | 'done'
  readonly startedMs: number
  readonly endedMs: number | undefined
  readonly transactions: bigint
  readonly postings: bigint
  /** 0: unknown. */
  readonly estimated: bigint
  /** The first 1,000. */
  readonly discrepancies: readonly Discrepancy[]
  readonly discrepancyCount: bigint
  readonly cursor: string
  readonly error: unknown
}

const IDLE: Verification = {
  state: 'idle',
  startedMs: 0,
  endedMs: undefined,
  transactions: 0n,
  postings: 0n,
  estimated: 0n,
  discrepancies: [],
  discrepancyCount: 0n,
  cursor: '',
  error: undefined,
}

/** Verifies the ledger. An interrupted verification continues where it stopped, and adds up what both found. */
export function useVerification() {
  const [verification, setVerification] = useState(IDLE)
  const transport = useTransport()
  const ended = useRef(new AbortController())
  useEffect(() => () => ended.current.abort(), [])
  const run = async (from: Verification): Promise<void> => {
    ended.current = new AbortController()
    const { signal } = ended.current
    let now: Verification = { ...from, state: 'running', error: undefined }
    setVerification(now)
    try {
      const stream = createClient(SettlementService, transport).verifyLedger(
        { from: from.cursor },
        { signal, timeoutMs: 0 },
      )
      for await (const message of stream) {
        now = {
          ...now,
          transactions: from.transactions + message.transactions,
          postings: from.postings + message.postings,
          estimated: from.estimated || message.estimatedTransactions,
          discrepancies: [...now.discrepancies, ...message.discrepancies],
          discrepancyCount: from.discrepancyCount + message.discrepancyCount,
          cursor: message.cursor || now.cursor,
          ...(message.completed && { state: 'done', endedMs: Date.now() }),
        }
        setVerification(now)
      }
      if (now.state !== 'done') setVerification({ ...now, state: 'interrupted' })
    } catch (error) {
      setVerification({ ...now, state: 'interrupted', ...(!signal.aborted && { error }) })
    }
  }
  return {
    verification,
    start: () => void run({ ...IDLE, startedMs: Date.now() }),
    resume: () => void run(verification),
    stop: () => ended.current.abort(),
  }
}
