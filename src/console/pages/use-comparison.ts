import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { type Client, createClient } from '@connectrpc/connect'
import { useTransport } from '@connectrpc/connect-query'
import { useQueryClient } from '@tanstack/react-query'
import { ReconciliationService } from '../../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import type { StatementResult } from '../../../gen/inflow/reconciliation/v1/statement_pb.ts'
import type { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { useKept } from '../ui/kept.ts'
import { extraOf, isLate, type Outcome, outcomeOf, periodOf, toMessage } from './outcome.ts'
import type { StatementRow } from './statement-csv.ts'

/** Rows of one call, which is one step of the progress. The contract allows 1,000. */
const PART_ROWS = 500
const PAGE_SIZE = 1_000

/** A comparison of a statement with the recorded payments, as far as it is. */
export interface Comparison {
  readonly state: 'idle' | 'running' | 'done'
  /** What it does: "Comparing", … */
  readonly step: string
  readonly done: number
  /** 0: unknown. */
  readonly total: number
  readonly outcomes: readonly Outcome[]
  /** False: no row says when it was paid, so that payments that the statement lacks were not looked for. */
  readonly lookedForExtra: boolean
  readonly error: unknown
  /** Ends what runs. */
  readonly ended: AbortController | undefined
}

const IDLE: Comparison = {
  state: 'idle',
  step: '',
  done: 0,
  total: 0,
  outcomes: [],
  lookedForExtra: false,
  error: undefined,
  ended: undefined,
}

type Reconciliations = Client<typeof ReconciliationService>

/**
 * Sends a statement in parts, and then looks for payments that it lacks. It goes on when the viewer leaves the page, and
 * its results are kept.
 */
export function useComparison(bank: Bank) {
  const [comparison, setComparison] = useKept('comparison', IDLE)
  const client = createClient(ReconciliationService, useTransport())
  const queries = useQueryClient()
  const update = (change: Partial<Comparison>) =>
    setComparison((before) => ({ ...before, ...change }))
  const run = async (work: (signal: AbortSignal) => Promise<void>) => {
    const ended = new AbortController()
    const { signal } = ended
    update({ state: 'running', error: undefined, ended })
    try {
      await work(signal)
    } catch (error) {
      if (!signal.aborted) update({ error })
    }
    // One that was given up does not end the next.
    setComparison((now) => (now.ended === ended ? { ...now, state: 'done' } : now))
  }
  const compare = (rows: readonly StatementRow[]) =>
    run(async (signal) => {
      const seen = new Set<string>()
      const outcomes: Outcome[] = []
      const { ended: _same, ...none } = IDLE
      update({ ...none, state: 'running', step: 'Comparing', total: rows.length })
      for (const part of partsOf(rows)) {
        const results = await send(client, bank, part, false, signal)
        outcomes.push(...part.map((row, at) => outcomeOf(row, resultAt(results, at), seen)))
        update({ done: outcomes.length, outcomes: [...outcomes] })
      }
      const period = periodOf(rows)
      if (period === undefined) return
      update({ step: 'Looking for payments that the statement lacks', done: 0, total: 0 })
      for await (const { found, read } of findExtra(client, bank, period, seen, signal)) {
        outcomes.push(...found)
        update({ done: read, outcomes: [...outcomes] })
      }
      update({ lookedForExtra: true })
    })
  const apply = (chosen: readonly Outcome[]) =>
    run(async (signal) => {
      const rows = chosen.flatMap(({ row }) => row ?? [])
      update({ step: 'Recording', done: 0, total: rows.length })
      let done = 0
      for (const part of partsOf(rows)) {
        const results = await send(client, bank, part, true, signal)
        const after = new Map(part.map((row, at) => [`${row.line}`, resultAt(results, at)]))
        done += part.length
        setComparison((before) => ({
          ...before,
          done,
          outcomes: before.outcomes.map((outcome) => withResult(outcome, after.get(outcome.key))),
        }))
      }
      void queries.invalidateQueries()
    })
  return {
    comparison,
    compare,
    apply,
    stop: () => comparison.ended?.abort(),
    reset: () => {
      comparison.ended?.abort()
      setComparison(() => IDLE)
    },
  }
}

/** What became of a row keeps its group: one sees where it came from. */
function withResult(outcome: Outcome, result: StatementResult | undefined): Outcome {
  if (result === undefined || outcome.row === undefined) return outcome
  const { action, cause, recorded = outcome.recorded } = result
  return { ...outcome, action, cause, recorded }
}

function* partsOf(rows: readonly StatementRow[]): Generator<readonly StatementRow[]> {
  for (let at = 0; at < rows.length; at += PART_ROWS) yield rows.slice(at, at + PART_ROWS)
}

function resultAt(results: readonly StatementResult[], at: number): StatementResult {
  const result = results[at]
  if (result === undefined) throw new Error('The service returned results for other rows')
  return result
}

/** The service ends a call in time even if it did not reach every row: those are sent again. */
async function send(
  client: Reconciliations,
  bank: Bank,
  part: readonly StatementRow[],
  apply: boolean,
  signal: AbortSignal,
): Promise<readonly StatementResult[]> {
  const call = async (rows: readonly StatementRow[]) =>
    (await client.reconcile({ bank, rows: rows.map(toMessage), apply }, { signal })).results
  const results = await call(part)
  for (;;) {
    const late = [...results.keys()].filter((at) => isLate(resultAt(results, at)))
    if (late.length === 0) return results
    const again = await call(late.flatMap((at) => part[at] ?? []))
    for (const [index, at] of late.entries()) results[at] = resultAt(again, index)
    if (again.every(isLate)) return results
  }
}

async function* findExtra(
  client: Reconciliations,
  bank: Bank,
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
  seen: ReadonlySet<string>,
  signal: AbortSignal,
): AsyncGenerator<{ found: Outcome[]; read: number }> {
  const period = { from: timestampFromMs(fromMs), to: timestampFromMs(toMs) }
  let read = 0
  let pageToken = ''
  do {
    const page = await client.listRecordedPayments(
      { bank, ...period, pageSize: PAGE_SIZE, pageToken },
      { signal },
    )
    read += page.payments.length
    yield { found: page.payments.flatMap((payment) => extraOf(payment, seen) ?? []), read }
    pageToken = page.nextPageToken
  } while (pageToken !== '')
}
