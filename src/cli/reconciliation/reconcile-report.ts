import { Action, Finding } from '../../../gen/inflow/reconciliation/v1/statement_pb.ts'
import { formatAmount } from '../../core/money.ts'
import { enumName } from '../options.ts'
import { type Column, table } from '../output.ts'

/** What a row, or a payment that no row is about, came to. */
export interface Difference {
  /** In the file; undefined for a payment that the statement does not have. */
  readonly line: number | undefined
  readonly finding: 'MISSING' | 'DIFFERS' | 'UNMATCHED' | 'REPEATED' | 'EXTRA'
  readonly action: string
  readonly sessionId: string
  readonly accountNumber: string
  /** As the statement has it; undefined when it has not. */
  readonly toldMinor: bigint | undefined
  /** Undefined when it is not recorded. */
  readonly recordedMinor: bigint | undefined
  readonly cause: string
}

const FINDINGS = ['MATCHES', 'MISSING', 'DIFFERS', 'UNMATCHED', 'REPEATED', 'EXTRA'] as const
const ACTIONS = ['NONE', 'RECORDED', 'UNMATCHED', 'HELD', 'DENIED', 'AGAIN'] as const

/** The differences that are shown; the rest is counted. */
const SHOWN_MAX = 10_000

/** Adds up what the rows of a statement came to. */
export function createReport() {
  const findings = new Map<string, number>(FINDINGS.map((name) => [name, 0]))
  const actions = new Map<string, number>(ACTIONS.map((name) => [name, 0]))
  const shown: Difference[] = []
  let [rows, skipped, differences, remaining] = [0, 0, 0, 0]
  const add = (counts: Map<string, number>, name: string) =>
    counts.set(name, (counts.get(name) ?? 0) + 1)
  return {
    skip: () => {
      skipped += 1
    },
    match() {
      rows += 1
      add(findings, 'MATCHES')
    },
    /** @param settled whether nobody needs to look at it any more */
    differ(difference: Difference, settled: boolean) {
      if (difference.finding !== 'EXTRA') rows += 1
      differences += 1
      if (!settled) remaining += 1
      add(findings, difference.finding)
      add(actions, difference.action)
      if (shown.length < SHOWN_MAX) shown.push(difference)
    },
    remaining: () => remaining,
    json: (facts: object) =>
      JSON.stringify(
        {
          ...facts,
          rows,
          skipped,
          remaining,
          findings: lower(findings),
          actions: lower(actions),
          differences: shown.map(({ toldMinor, recordedMinor, ...rest }) => ({
            ...rest,
            ...(toldMinor !== undefined && { amountMinor: String(toldMinor) }),
            ...(recordedMinor !== undefined && { recordedAmountMinor: String(recordedMinor) }),
          })),
          differencesLeftOut: differences - shown.length,
        },
        null,
        2,
      ),
    text() {
      const counts = [...findings].filter(([name, count]) => count > 0 || name === 'MATCHES')
      const lines = [`${rows} rows, ${skipped} left out (no final credits)`]
      for (const [name, count] of counts) lines.push(`${name.toLowerCase().padEnd(10)} ${count}`)
      if (shown.length > 0) lines.push('', table(shown, COLUMNS))
      if (differences > shown.length) lines.push(`… and ${differences - shown.length} more`)
      return lines.join('\n')
    },
  }
}

export const findingName = (finding: Finding) => enumName(finding, Finding)
export const actionName = (action: Action) => enumName(action, Action)

const COLUMNS: readonly Column<Difference>[] = [
  { title: 'Line', right: true, of: ({ line }) => String(line ?? '') },
  { title: 'Finding', of: ({ finding }) => finding },
  { title: 'Done', of: ({ action }) => action },
  { title: 'Session', of: ({ sessionId }) => sessionId },
  { title: 'Account', of: ({ accountNumber }) => accountNumber },
  { title: 'Statement', right: true, of: ({ toldMinor }) => naira(toldMinor) },
  { title: 'Recorded', right: true, of: ({ recordedMinor }) => naira(recordedMinor) },
  { title: 'Cause', of: ({ cause }) => cause },
]

const naira = (amountMinor: bigint | undefined) =>
  amountMinor === undefined ? '' : formatAmount(amountMinor)

const lower = (counts: ReadonlyMap<string, number>) =>
  Object.fromEntries([...counts].map(([name, count]) => [name.toLowerCase(), count]))
