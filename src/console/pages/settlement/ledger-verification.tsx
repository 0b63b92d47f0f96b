import type { Discrepancy } from '../../../../gen/inflow/settlement/v1/settlement_pb.ts'
import { count } from '../../format/money.ts'
import { durationText } from '../../format/time.ts'
import { useNow } from '../../ui/clock.ts'
import { Button } from '../../ui/controls/button.tsx'
import { Failure } from '../../ui/lists/failure.tsx'
import { type Column, Table } from '../../ui/lists/table.tsx'
import { Section } from '../../ui/page.tsx'
import { Status } from '../../ui/status.tsx'
import { useVerification } from './use-verification.ts'

const COLUMNS: readonly Column<Discrepancy>[] = [
  { key: 'subject', title: 'Of', render: ({ subject }) => <code>{subject}</code> },
  { key: 'problem', title: 'Discrepancy', render: ({ problem }) => problem },
]

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
