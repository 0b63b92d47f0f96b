import {
  type Discrepancy,
  DiscrepancySchema,
} from '../../../gen/inflow/settlement/v1/settlement_pb.ts'
import {
  SettlementService,
  type VerifyLedgerResponse,
} from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { count } from '../format/money.ts'
import { durationText } from '../format/time.ts'
import { Button } from '../ui/button.tsx'
import { useNow } from '../ui/clock.ts'
import { columnsOf } from '../ui/columns.tsx'
import { Table } from '../ui/list.tsx'
import { Failure, Section } from '../ui/page.tsx'
import { useProgress } from '../ui/progress.ts'
import { Status } from '../ui/values.tsx'

const COLUMNS = columnsOf(DiscrepancySchema, [
  ['Of', ({ subject }) => <code>{subject}</code>],
  ['Discrepancy', 'problem'],
])

export function LedgerVerification() {
  const { state, at, error, start, resume, stop } = useProgress(
    SettlementService,
    IDLE,
    (client, { cursor }, options) => client.verifyLedger({ from: cursor }, options),
    add,
  )
  const isRunning = state === 'running'
  const isInterrupted = !isRunning && state !== 'idle' && at.endedMs === undefined
  const begin = () => start({ ...IDLE, startedMs: Date.now() })
  return (
    <Section
      title="Ledger"
      actions={
        <>
          {isRunning && <Button onClick={stop}>Stop</Button>}
          {isInterrupted && <Button onClick={resume}>Continue</Button>}
          {!isRunning && <Button onClick={begin}>Verify the ledger</Button>}
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
      {state !== 'idle' && <Progress verification={at} isRunning={isRunning} />}
      {at.discrepancies.length > 0 && (
        <Table
          label="Discrepancies"
          columns={COLUMNS}
          rows={at.discrepancies}
          keyOf={({ subject, problem }) => `${subject} ${problem}`}
        />
      )}
    </Section>
  )
}

function Progress({ verification, isRunning }: { verification: Verification; isRunning: boolean }) {
  const { startedMs, endedMs, transactions, postings, estimated } = verification
  const { discrepancyCount } = verification
  const now = useNow()
  const elapsedMs = Math.max(0, (endedMs ?? now) - startedMs)
  const value = estimated > 0n && {
    value: Math.min(100, Number((transactions * 100n) / estimated)),
  }
  return (
    <div className="verification">
      {isRunning && <progress aria-label="Verified" max={100} {...value} />}
      <p role="status">
        <Outcome verification={verification} isRunning={isRunning} /> {count(transactions)}
        {isRunning && estimated > 0n && ` of about ${count(estimated)}`} transactions,{' '}
        {count(postings)} postings, {count(discrepancyCount)} discrepancies in{' '}
        {durationText(elapsedMs)}.
      </p>
    </div>
  )
}

function Outcome({ verification, isRunning }: { verification: Verification; isRunning: boolean }) {
  if (isRunning) return <Status tone="waiting">Verifying</Status>
  if (verification.endedMs === undefined) return <Status tone="waiting">Interrupted</Status>
  if (verification.discrepancyCount > 0n) return <Status tone="bad">Discrepancies</Status>
  return <Status tone="good">It adds up</Status>
}

interface Verification {
  readonly startedMs: number
  /** Undefined: not the whole ledger is verified yet. */
  readonly endedMs: number | undefined
  readonly transactions: bigint
  readonly postings: bigint
  /** 0: unknown. */
  readonly estimated: bigint
  /** The first 1,000. */
  readonly discrepancies: readonly Discrepancy[]
  readonly discrepancyCount: bigint
  readonly cursor: string
}

const IDLE: Verification = {
  startedMs: 0,
  endedMs: undefined,
  transactions: 0n,
  postings: 0n,
  estimated: 0n,
  discrepancies: [],
  discrepancyCount: 0n,
  cursor: '',
}

/** An interrupted verification continues where it stopped, and adds up what both found. */
function add(now: Verification, message: VerifyLedgerResponse, from: Verification): Verification {
  return {
    ...now,
    transactions: from.transactions + message.transactions,
    postings: from.postings + message.postings,
    estimated: from.estimated || message.estimatedTransactions,
    discrepancies: [...now.discrepancies, ...message.discrepancies],
    discrepancyCount: from.discrepancyCount + message.discrepancyCount,
    cursor: message.cursor || now.cursor,
    ...(message.completed && { endedMs: Date.now() }),
  }
}
