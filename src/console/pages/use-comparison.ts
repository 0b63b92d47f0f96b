import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { type Client, createClient } from '@connectrpc/connect'
import { useTransport } from '@connectrpc/connect-query'
import { skipToken, useQuery, useQueryClient } from '@tanstack/react-query'
import { ReconciliationService } from '../../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import type { StatementResult } from '../../../gen/inflow/reconciliation/v1/statement_pb.ts'
import type { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { extraOf, isLate, type Outcome, outcomeOf, rowPeriodOf, toMessage } from './outcome.ts'
import type { StatementRow } from './statement-csv.ts'

/** The rows of one call, which is one step of the progress. The contract allows 1,000. */
const PART_ROWS = 500
const PAGE_SIZE = 1_000

const IDLE = {
  state: 'idle' as 'idle' | 'running' | 'done',
  /** The current step: "Comparing", … */
  step: '',
  done: 0,
  /** 0: unknown. */
  total: 0,
  outcomes: [] as readonly Outcome[],
  /** False: no row has a time, so payments that the statement lacks were not looked for. */
  lookedForExtra: false,
  error: undefined as unknown,
  /** Stops the running comparison. */
  ended: undefined as AbortController | undefined,
}

/** A comparison of a statement with the recorded payments, with its results so far. */
export type Comparison = Readonly<typeof IDLE>

type Reconciliations = Client<typeof ReconciliationService>

/**
 * Sends a statement in parts, and then looks for payments that it lacks. This continues when the viewer leaves the page, and
 * the results are kept.
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
    // A stopped comparison must not end the next one.
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
      const period = rowPeriodOf(rows)
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

/** Adds the result of an action to a row, which stays in its group so that the viewer still finds it there. */
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

/** Sends rows. The service ends a call after a time limit, and rows that it did not reach are sent again. */
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

/**
 * A state that is kept when the viewer leaves the page, until they sign out.
 *
 * @returns the state, and a function that changes it, even after the page is closed
 */
export function useKept<T>(
  name: string,
  initial: T,
): readonly [T, (change: (before: T) => T) => void] {
  const queries = useQueryClient()
  const queryKey = ['kept', name]
  const { data } = useQuery<T>({
    queryKey,
    queryFn: skipToken,
    initialData: initial,
    gcTime: Number.POSITIVE_INFINITY,
    staleTime: Number.POSITIVE_INFINITY,
    structuralSharing: false,
  })
  const change = (next: (before: T) => T) =>
    queries.setQueryData<T>(queryKey, (before = initial) => next(before))
  return [data ?? initial, change]
}
