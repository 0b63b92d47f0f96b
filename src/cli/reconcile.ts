import type { MessageInitShape } from '@bufbuild/protobuf'
import { type Timestamp, timestampFromMs } from '@bufbuild/protobuf/wkt'
import type { Command } from 'commander'
import { ReconciliationService } from '../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import {
  Action,
  ActionSchema,
  Finding,
  FindingSchema,
  RetryReason,
  type StatementResult,
  type StatementRowSchema,
} from '../../gen/inflow/reconciliation/v1/statement_pb.ts'
import { TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import { type Bank, BankSchema } from '../../gen/inflow/type/v1/bank_pb.ts'
import { formatAmount } from '../core/money.ts'
import {
  findColumns,
  normalizeHeader,
  readCredit,
  STATEMENT_COLUMNS,
  type StatementColumn,
  type StatementCredit,
  StatementError,
  type StatementPositions,
  type ValueFormat,
} from '../core/statement-columns.ts'
import { enumName, enumRule, lagosTime } from './options.ts'
import { type Column, EXIT, Failure, jsonText, note, print, table } from './output.ts'
import type { Progress } from './progress.ts'
import { readTable } from './read-csv.ts'
import { pagesOf, type Service, serviceAction } from './service-action.ts'
import { calling, describeNoun } from './verb.ts'

interface ReconcileOptions {
  readonly bank: Bank
  readonly file: string
  readonly apply?: boolean
  readonly dryRun?: boolean
  readonly from?: Timestamp
  readonly to?: Timestamp
  readonly columns?: Map<StatementColumn, string>
  readonly dates?: 'day-first' | 'month-first'
  readonly unit: 'naira' | 'kobo'
}

/** Bounds the memory for the ids of the rows; larger files have to be split. */
const ROWS_MAX = 1_000_000

const PAGE_ROWS = 1_000

const RECONCILE_HELP = `
  --bank <code>!  the bank
  --file <path>!  the bank's statement: CSV with a line of headers
  --dry-run  report the discrepancies only (default)
  --apply  record missing payments, and queue conflicts for manual review
  --from <time>  look for extra payments from this time, in Africa/Lagos like the rows (default: the earliest row)
  --to <time>  look for extra payments before this time, in Africa/Lagos (default: the latest row)
  --columns <pairs>  headers of the columns: session=…,amount=…
  --dates <order>  how to read dates such as 02/03/2026
  --unit <unit>  the unit of amounts

  Exit code 1 if discrepancies remain.

  Example: reconcile --bank PALMPAY --file statement.csv --columns session="NIP Session"`

export function reconcile(noun: Command): void {
  const verb = calling(reconcileFile, {
    bank: enumRule(BankSchema),
    dryRun: { conflicts: 'apply' },
    from: { read: lagosTime.parse },
    to: { read: lagosTime.parse },
    columns: { read: parseColumns },
    dates: { choices: ['day-first', 'month-first'] },
    unit: { choices: ['naira', 'kobo'], default: 'naira' },
  })
  describeNoun(noun, verb, RECONCILE_HELP)
}

const reconcileFile = serviceAction<ReconcileOptions>(async (service, options) => {
  const { bank, file, columns = new Map(), dates, unit, apply = false } = options
  const bankName = enumName(BankSchema, bank)
  const format: StatementFormat = { bank: bankName, file, columns, dates, unit }
  const report = createReport()
  // Reads the whole file first, so that an error in its last line changes nothing.
  const extent = await measure(format, service.progress)
  const run: Run = { service, bank, apply, report, seen: new Set() }
  await sendRows(run, format, extent.rows)
  const { from = toTimestamp(extent.firstMs), to = toTimestamp(extent.lastMs, 1_000) } = options
  if (from && to) await findExtra(run, from, to)
  service.progress.end()
  if (!from || !to) note('Did not look for extra payments: give --from and --to.')
  const period = { from: lagosTime.format(from), to: lagosTime.format(to) }
  print(options.json ? report.json({ bank: bankName, apply, ...period }) : report.text())
  const remaining = report.remaining()
  if (remaining > 0) {
    const hint = apply ? [] : ['this was a dry run: --apply records missing payments']
    throw new Failure(EXIT.refused, `discrepancies remain: ${remaining}`, hint)
  }
})

interface Run {
  readonly service: Service
  readonly bank: Bank
  readonly apply: boolean
  readonly report: ReturnType<typeof createReport>
  /** Ids of the transactions that rows match, and session ids of rows that match no transaction. */
  readonly seen: Set<string>
}

interface Extent {
  rows: number
  firstMs: number | undefined
  lastMs: number | undefined
}

async function measure(format: StatementFormat, progress: Progress): Promise<Extent> {
  const extent: Extent = { rows: 0, firstMs: undefined, lastMs: undefined }
  for await (const { line, row } of readStatement(format)) {
    extent.rows += 1
    if (extent.rows > ROWS_MAX) {
      throw new Failure(EXIT.usage, `line ${line}: more than ${ROWS_MAX} rows; split the file`)
    }
    const atMs = row?.paidAtMs
    if (atMs !== undefined) {
      extent.firstMs = Math.min(extent.firstMs ?? atMs, atMs)
      extent.lastMs = Math.max(extent.lastMs ?? atMs, atMs)
    }
    if (extent.rows % PAGE_ROWS === 0) progress.show('reading', extent.rows)
  }
  return extent
}

type Sent = StatementLine & { readonly row: NonNullable<StatementLine['row']> }

async function sendRows(run: Run, format: StatementFormat, total: number): Promise<void> {
  let page: Sent[] = []
  let done = 0
  for await (const { line, row } of readStatement(format)) {
    done += 1
    if (row === undefined) run.report.skip()
    else page.push({ line, row })
    if (page.length < PAGE_ROWS) continue
    await sendPage(run, page)
    page = []
    run.service.progress.show('comparing', done, total)
  }
  if (page.length > 0) await sendPage(run, page)
}

async function sendPage(run: Run, page: readonly Sent[]): Promise<void> {
  const results = await callReconcile(run, page)
  // The service ends a call after a time limit, even if it has not reached every row.
  let late = indexesOf(results, isLate)
  while (late.length > 0) {
    const retried = await callReconcile(
      run,
      late.map((index) => page[index] as Sent),
    )
    for (const [at, index] of late.entries()) results[index] = retried[at] as StatementResult
    late = late.length > indexesOf(retried, isLate).length ? indexesOf(results, isLate) : []
  }
  for (const [index, sent] of page.entries())
    reportRow(run, sent, results[index] as StatementResult)
}

const isLate = ({ retryReason }: StatementResult) => retryReason === RetryReason.TIME

function indexesOf<T>(values: readonly T[], matches: (value: T) => boolean): number[] {
  return values.flatMap((value, index) => (matches(value) ? [index] : []))
}

async function callReconcile(run: Run, page: readonly Sent[]): Promise<StatementResult[]> {
  const { service, bank, apply } = run
  const rows = page.map(({ row: { paidAtMs: _, ...row } }) => row)
  const { results } = await service.client(ReconciliationService).reconcile({ bank, rows, apply })
  if (results.length !== page.length) throw new Error('the service returned results for other rows')
  return results
}

function reportRow({ report, seen }: Run, { line, row }: Sent, result: StatementResult): void {
  const { finding, action, cause, recorded } = result
  const sessionId = row.sessionId || row.bankKey
  const key = recorded?.transactionId ?? sessionId
  const isRepeat = seen.has(key)
  seen.add(key)
  const reported = {
    line,
    sessionId,
    accountNumber: row.accountNumber,
    statementMinor: row.amountMinor,
    recordedMinor: recorded?.amountMinor,
    cause,
  }
  if (isRepeat && finding !== Finding.MISMATCHED) {
    report.addDiscrepancy({ ...reported, finding: 'REPEATED', action: 'NONE' }, false)
  } else if (finding === Finding.MATCHED) report.match()
  else {
    const names = {
      finding: enumName(FindingSchema, finding),
      action: enumName(ActionSchema, action),
    }
    report.addDiscrepancy({ ...reported, ...names }, action === Action.RECORDED)
  }
}

/** Reports recorded payments that are not in the statement. They are never deleted. */
async function findExtra(run: Run, from: Timestamp, to: Timestamp): Promise<void> {
  const { service, bank, report, seen } = run
  const client = service.client(ReconciliationService)
  const period = { bank, from, to, pageSize: PAGE_ROWS }
  let read = 0
  for await (const { payments } of pagesOf((pageToken) =>
    client.listRecordedPayments({ ...period, pageToken }),
  )) {
    for (const each of payments) {
      const { status, transactionId, sessionId, accountNumber, amountMinor } = each
      const known = seen.has(transactionId) || seen.has(sessionId)
      if (known || status !== TransactionStatus.SUCCESS) continue
      const amounts = { statementMinor: undefined, recordedMinor: amountMinor }
      const extra = { finding: 'EXTRA', action: 'NONE', sessionId, accountNumber } as const
      report.addDiscrepancy({ line: undefined, ...amounts, cause: '', ...extra }, false)
    }
    read += payments.length
    service.progress.show('looking for extra payments', read, Math.max(seen.size, read))
  }
}

function toTimestamp(atMs: number | undefined, afterMs = 0): Timestamp | undefined {
  return atMs === undefined ? undefined : timestampFromMs(atMs + afterMs)
}

/** Reads `session=NIP Session,amount=Credit`. @throws Failure */
function parseColumns(text: string): Map<StatementColumn, string> {
  const given = new Map<StatementColumn, string>()
  for (const pair of text.split(',')) {
    const [name = '', ...rest] = pair.split('=')
    const column = STATEMENT_COLUMNS.find((each) => each === name.trim())
    if (column === undefined || normalizeHeader(rest.join('=')) === '') {
      const known = STATEMENT_COLUMNS.join(', ')
      throw new Failure(EXIT.usage, `--columns must be like session=…,amount=…; columns: ${known}`)
    }
    given.set(column, rest.join('='))
  }
  return given
}

/** How to read a statement. */
interface StatementFormat extends ValueFormat {
  /** The code of the bank, such as 9PSB. */
  readonly bank: string
  readonly file: string
  /** The headers of columns whose header is not a default one. */
  readonly columns: ReadonlyMap<StatementColumn, string>
}

/** A row for the service, with the time in milliseconds. */
type StatementRow = MessageInitShape<typeof StatementRowSchema> &
  Pick<StatementCredit, 'sessionId' | 'bankKey' | 'accountNumber' | 'amountMinor' | 'paidAtMs'>

interface StatementLine {
  /** Line number in the file, from 1. */
  readonly line: number
  /** Undefined if the line is not a final credit. */
  readonly row: StatementRow | undefined
}

/** Reads a statement line by line. @throws Failure naming the line and its error */
async function* readStatement(format: StatementFormat): AsyncGenerator<StatementLine> {
  let positions: StatementPositions = {}
  const records = readTable(format.file, (headers) => {
    positions = columnsOf(format, headers)
  })
  for await (const { line, fields, fault } of records) {
    if (fault !== undefined) throw lineFault(line, fault)
    yield { line, row: toRow(format, positions, line, fields) }
  }
}

function columnsOf(format: StatementFormat, headers: readonly string[]): StatementPositions {
  try {
    return findColumns(format.bank, headers, format.columns)
  } catch (error) {
    if (!(error instanceof StatementError)) throw error
    const hint = error.column !== undefined ? `; name it with --columns ${error.column}="…"` : ''
    throw new Failure(EXIT.usage, `line 1: ${error.message}${hint}`)
  }
}

function toRow(
  format: StatementFormat,
  positions: StatementPositions,
  line: number,
  fields: readonly string[],
): StatementLine['row'] {
  try {
    const credit = readCredit(format, positions, fields)
    if (credit === undefined) return undefined
    const { status, payerName, ...row } = credit
    return {
      ...row,
      status: TransactionStatus[status],
      payer: { name: payerName },
      ...(row.paidAtMs !== undefined && { paidAt: timestampFromMs(row.paidAtMs) }),
    }
  } catch (error) {
    if (!(error instanceof StatementError)) throw error
    const hint = error.column === 'time' ? '; for 20/11/2026 give --dates' : ''
    throw lineFault(line, error.message + hint)
  }
}

function lineFault(line: number, text: string): Failure {
  return new Failure(EXIT.usage, `line ${line}, ${text}`)
}

/** A row that does not match, or a recorded payment without a row. */
interface Discrepancy {
  /** The line in the file; undefined for a payment that is not in the statement. */
  readonly line: number | undefined
  readonly finding: string
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
function createReport() {
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
    /** @param resolved whether the discrepancy needs no further action */
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
      if (shown.length > 0) lines.push('', table(shown, DISCREPANCY_COLUMNS))
      if (discrepancies > shown.length) lines.push(`… and ${discrepancies - shown.length} more`)
      return lines.join('\n')
    },
  }
}

const DISCREPANCY_COLUMNS: readonly Column<Discrepancy>[] = [
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
