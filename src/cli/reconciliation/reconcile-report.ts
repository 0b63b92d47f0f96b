import { Action, Finding } from '../../../gen/inflow/reconciliation/v1/statement_pb.ts'
import { formatAmount } from '../../core/money.ts'
import { enumName } from '../options.ts'
import { type Column, jsonText, table } from '../output.ts'

/** A row that does not match, or a recorded payment without a row. */
export interface Discrepancy {
  /** In the file; undefined for a payment that is not in the statement. */
  readonly line: number | undefined
  readonly finding: 'MISSING' | 'MISMATCHED' | 'UNMATCHED' | 'REPEATED' | 'EXTRA'
  readonly action: string
  readonly sessionId: string
  readonly accountNumber: string
  /** The amount in the statement; undefined if the payment is not in it. */
  readonly statementMinor: bigint | undefined
  /** The recorded amount; undefined if the payment is not recorded. */
  readonly recordedMinor: bigint | undefined
  readonly cause: string
}

const FINDINGS = ['MATCHED', 'MISSING', 'MISMATCHED', 'UNMATCHED', 'REPEATED', 'EXTRA'] as const
const ACTIONS = ['NONE', 'RECORDED', 'UNMATCHED', 'REVIEW', 'REJECTED', 'RETRY'] as const

/** Shows at most this many discrepancies and counts the rest. */
const SHOWN_MAX = 10_000

/** Counts the results of statement rows and lists the discrepancies. */
export function createReport() {
  const findings = new Map<string, number>(FINDINGS.map((name) => [name, 0]))
  const actions = new Map<string, number>(ACTIONS.map((name) => [name, 0]))
  const shown: Discrepancy[] = []
  let [rows, skipped, discrepancies, remaining] = [0, 0, 0, 0]
  const add = (counts: Map<string, number>, name: string) =>
    counts.set(name, (counts.get(name) ?? 0) + 1)
  return {
    skip: () => {
      skipped += 1
    },
    match() {
      rows += 1
      add(findings, 'MATCHED')
    },
    /** @param resolved whether it needs no further action */
    addDiscrepancy(discrepancy: Discrepancy, resolved: boolean) {
      if (discrepancy.finding !== 'EXTRA') rows += 1
      discrepancies += 1
      if (!resolved) remaining += 1
      add(findings, discrepancy.finding)
      add(actions, discrepancy.action)
      if (shown.length < SHOWN_MAX) shown.push(discrepancy)
    },
    remaining: () => remaining,
    json: (facts: object) =>
      jsonText(
        {
          ...facts,
          rows,
          skipped,
          remaining,
          findings: lower(findings),
          actions: lower(actions),
          discrepancies: shown.map(({ statementMinor, recordedMinor, ...rest }) => ({
            ...rest,
            ...(statementMinor !== undefined && { amountMinor: String(statementMinor) }),
            ...(recordedMinor !== undefined && { recordedAmountMinor: String(recordedMinor) }),
          })),
          discrepanciesOmitted: discrepancies - shown.length,
        },
        2,
      ),
    text() {
      const counts = [...findings].filter(([name, count]) => count > 0 || name === 'MATCHED')
      const lines = [`${rows} rows, ${skipped} skipped (not final credits)`]
      for (const [name, count] of counts) lines.push(`${name.toLowerCase().padEnd(10)} ${count}`)
      if (shown.length > 0) lines.push('', table(shown, COLUMNS))
      if (discrepancies > shown.length) lines.push(`… and ${discrepancies - shown.length} more`)
      return lines.join('\n')
    },
  }
}

export const findingName = (finding: Finding) => enumName(finding, Finding)
export const actionName = (action: Action) => enumName(action, Action)

const COLUMNS: readonly Column<Discrepancy>[] = [
  { title: 'Line', right: true, of: ({ line }) => String(line ?? '') },
  { title: 'Finding', of: ({ finding }) => finding },
  { title: 'Action', of: ({ action }) => action },
  { title: 'Session', of: ({ sessionId }) => sessionId },
  { title: 'Account', of: ({ accountNumber }) => accountNumber },
  { title: 'Statement', right: true, of: ({ statementMinor }) => naira(statementMinor) },
  { title: 'Recorded', right: true, of: ({ recordedMinor }) => naira(recordedMinor) },
  { title: 'Cause', of: ({ cause }) => cause },
]

const naira = (amountMinor: bigint | undefined) =>
  amountMinor === undefined ? '' : formatAmount(amountMinor)

const lower = (counts: ReadonlyMap<string, number>) =>
  Object.fromEntries([...counts].map(([name, count]) => [name.toLowerCase(), count]))
