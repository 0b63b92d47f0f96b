import { createClient } from '@connectrpc/connect'
import { useTransport } from '@connectrpc/connect-query'
import { useEffect, useRef, useState } from 'react'
import {
  type Discrepancy,
  DiscrepancySchema,
} from '../../../gen/inflow/settlement/v1/settlement_pb.ts'
import { SettlementService } from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { count } from '../format/money.ts'
import { durationText } from '../format/time.ts'
import { Button } from '../ui/button.tsx'
import { useNow } from '../ui/clock.ts'
import { columnsOf } from '../ui/columns.tsx'
import { Table } from '../ui/list.tsx'
import { Failure, Section } from '../ui/page.tsx'
import { Status } from '../ui/values.tsx'

const COLUMNS = columnsOf(DiscrepancySchema, [
  ['Of', ({ subject }) => <code>{subject}</code>],
  ['Discrepancy', 'problem'],
])

/** Recomputes the whole ledger, with progress. */
export function LedgerVerification() {
  const { verification, start, resume, stop } = useVerification()
  const { state, discrepancies, error } = verification
  return (
    <Section
      title="Ledger"
      actions={
        <>
          {state === 'running' && <Button onClick={stop}>Stop</Button>}
          {state === 'interrupted' && <Button onClick={resume}>Continue</Button>}
          {state !== 'running' && <Button onClick={start}>Verify the ledger</Button>}
        </>
      }
    >
      {state === 'idle' && (
        <p className="soft">
          Compares every transaction with its postings and events, every settlement with its
          payments and fees, and every balance with all postings.
        </p>
      )}
      {error !== undefined && <Failure error={error} onRetry={resume} />}
      {state !== 'idle' && <Progress verification={verification} />}
      {discrepancies.length > 0 && (
        <Table
          label="Discrepancies"
          columns={COLUMNS}
          rows={discrepancies}
          keyOf={({ subject, problem }) => `${subject} ${problem}`}
        />
      )}
    </Section>
  )
}

const STATES = {
  idle: ['neutral', ''],
  running: ['waiting', 'Verifying'],
  interrupted: ['waiting', 'Interrupted'],
} as const

function Progress({
  verification,
}: {
  readonly verification: ReturnType<typeof useVerification>['verification']
}) {
  const { state, startedMs, endedMs, transactions, postings, estimated, discrepancyCount } =
    verification
  const now = useNow()
  const elapsedMs = Math.max(0, (endedMs ?? now) - startedMs)
  const [tone, word] =
    state !== 'done'
      ? STATES[state]
      : discrepancyCount === 0n
        ? (['good', 'It adds up'] as const)
        : (['bad', 'Discrepancies'] as const)
  return (
    <div className="verification">
      {state === 'running' && (
        <progress
          aria-label="Verified"
          max={100}
          {...(estimated > 0n && {
            value: Math.min(100, Number((transactions * 100n) / estimated)),
          })}
        />
      )}
      <p role="status">
        <Status tone={tone}>{word}</Status> {count(transactions)}
        {state === 'running' && estimated > 0n && ` of about ${count(estimated)}`} transactions,{' '}
        {count(postings)} postings, {count(discrepancyCount)} discrepancies in{' '}
        {durationText(elapsedMs)}.
      </p>
    </div>
  )
}

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
function useVerification() {
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
