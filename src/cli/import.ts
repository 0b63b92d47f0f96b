import { createHash } from 'node:crypto'
import type { DescMessage, MessageShape } from '@bufbuild/protobuf'
import type { Command } from 'commander'
import {
  AccountService,
  ImportedAccountSchema,
} from '../../gen/inflow/account/v1/account_service_pb.ts'
import {
  ImportedTransactionSchema,
  TransactionService,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { ImportOutcome, type ImportResult } from '../../gen/inflow/type/v1/import_pb.ts'
import { forEachConcurrently } from '../core/concurrency.ts'
import { type FileRow, type RowFault, readRows } from './import-rows.ts'
import { EXIT, Failure, jsonText, note, print } from './output.ts'
import type { Progress } from './progress.ts'
import { BUSINESS } from './rpc-verb.ts'
import { type Service, serviceAction } from './service-action.ts'
import { addVerbs, calling } from './verb.ts'

const OPTIONS = `${BUSINESS}
  <file>  CSV with a line of headers, or .jsonl with an object on each line
  --test  in test mode
  --dry-run  only validate the file`

const IMPORT_HELP = `
  accounts: import accounts that another provider opened
  ${OPTIONS}
  Example: import accounts accounts.csv --business biz_… --dry-run

  transactions: import the history of their payments, which changes no balance
  ${OPTIONS}
  Example: import transactions payments.csv --business biz_…`

export function importNoun(noun: Command): void {
  addVerbs(noun, IMPORT_HELP, {
    accounts: calling(importAction(ACCOUNTS)),
    transactions: calling(importAction(TRANSACTIONS)),
  })
  for (const verb of noun.commands) {
    verb.addHelpText(
      'after',
      '\nThe columns are the fields of the contract, such as account_number or accountNumber; amount is in\n' +
        'naira. Nothing is imported if any row is wrong. If a run is interrupted, repeat it.',
    )
  }
}

/** The kind of rows in a file. */
interface ImportKind<Desc extends DescMessage> {
  readonly schema: Desc
  /** The keys that must be unique in the file, with the field that a fault names. */
  keysOf(row: MessageShape<Desc>): readonly (readonly [field: string, key: string])[]
  /** Imports some rows, or returns what the results would be. */
  send(service: Service, rows: MessageShape<Desc>[], request: Request): Promise<ImportResults>
}

interface Request {
  readonly businessId: string
  readonly test: boolean
  readonly validateOnly: boolean
}

interface ImportResults {
  readonly results: readonly ImportResult[]
}

const ACCOUNTS: ImportKind<typeof ImportedAccountSchema> = {
  schema: ImportedAccountSchema,
  keysOf: ({ reference, providerReference, bank, accountNumber }) => [
    ['reference', reference],
    ['providerReference', providerReference],
    ['accountNumber', `${bank} ${accountNumber}`],
  ],
  send: (service, accounts, request) =>
    service.client(AccountService).importAccounts({ ...request, accounts }),
}

const TRANSACTIONS: ImportKind<typeof ImportedTransactionSchema> = {
  schema: ImportedTransactionSchema,
  keysOf: ({ bank, sessionId }) => [['sessionId', `${bank} ${sessionId}`]],
  send: (service, transactions, request) =>
    service.client(TransactionService).importTransactions({ ...request, transactions }),
}

/** The most rows of a file; the keys of so many rows take about 100 MB. */
const ROWS_MAX = 1_000_000

/** The number of rows in a call. */
const BATCH_ROWS = 1_000

/** The most concurrent calls: the service imports rows while the next ones are read. */
const CALLS_MAX = 3

const FAULTS_SHOWN_MAX = 100

interface Options {
  readonly business?: string
  readonly test?: boolean
  readonly dryRun?: boolean
}

/**
 * Imports the rows of a file in two passes. The first pass validates the whole file, and nothing is imported if any row is
 * wrong. Rows that were imported before are skipped, so an interrupted run can be repeated.
 */
const importAction = <Desc extends DescMessage>(kind: ImportKind<Desc>) =>
  serviceAction<Options>(async (service, options, file) => {
    const { dryRun = false, json = false, test = false } = options
    const businessId = service.business(options.business)
    const run: Run<Desc> = {
      kind,
      send: async (rows, validateOnly) => {
        const { results } = await kind.send(service, rows, { businessId, test, validateOnly })
        if (results.length === rows.length) return results
        throw new Error('the service returned results for other rows')
      },
      progress: service.progress,
      faults: createFaults(),
      count: { total: 0, known: 0, imported: 0, there: 0 },
    }
    const { faults, count } = run
    const done = await validate(run, readRows(kind.schema, file))
    if (!dryRun && faults.count() === 0) await importRows(run, readRows(kind.schema, file), done)
    service.progress.end()
    const { total, known, imported, there } = count
    if (json) {
      const report = { rows: total, imported, alreadyThere: known, dryRun, faults: faults.first() }
      print(jsonText({ ...report, faultCount: faults.count() }, 2))
    } else {
      for (const each of faults.first()) print(faultText(each))
      const summary = dryRun
        ? `${plain(total - known - faults.rows())} would be imported, ${plain(known)} already there`
        : `${plain(imported)} imported, ${plain(there)} already there`
      if (faults.count() === 0) print(summary)
    }
    if (faults.count() > 0) throw wrongRows(faults.count(), imported)
  })

interface Run<Desc extends DescMessage> {
  readonly kind: ImportKind<Desc>
  send(rows: MessageShape<Desc>[], validateOnly: boolean): Promise<readonly ImportResult[]>
  readonly progress: Progress
  readonly faults: ReturnType<typeof createFaults>
  /** The rows of the file, rows that already existed, and rows that this run imported or found. */
  readonly count: { total: number; known: number; imported: number; there: number }
}

const plain = (count: number) => count.toLocaleString('en')

function faultText({ line, field, message }: RowFault): string {
  return field === '' ? `line ${line}: ${message}` : `line ${line}: ${field}: ${message}`
}

function wrongRows(count: number, imported: number): Failure {
  const shown = count > FAULTS_SHOWN_MAX ? [`the first ${FAULTS_SHOWN_MAX} are shown`] : []
  const text =
    imported === 0 ? 'nothing was imported' : `${plain(imported)} rows were imported before`
  return new Failure(EXIT.refused, `${plain(count)} faults in the file: ${text}`, shown)
}

/** Keeps the first faults by line, and counts all faults and the rows with faults. */
function createFaults() {
  let kept: RowFault[] = []
  let [count, rows] = [0, 0]
  const first = (): readonly RowFault[] => {
    kept = kept.sort((a, b) => a.line - b.line).slice(0, FAULTS_SHOWN_MAX)
    return kept
  }
  return {
    /** @param faults the faults of one row */
    add(faults: readonly RowFault[]) {
      count += faults.length
      rows += 1
      kept.push(...faults)
      if (kept.length > 2 * FAULTS_SHOWN_MAX) first()
    },
    count: () => count,
    rows: () => rows,
    first,
  }
}

/** Validates all rows. @returns the batches whose rows are all imported already */
async function validate<Desc extends DescMessage>(
  { kind, send, faults, count, progress }: Run<Desc>,
  rows: AsyncIterable<FileRow<Desc>>,
): Promise<ReadonlySet<number>> {
  const done = new Set<number>()
  const seen = new Map<string, number>()
  const distinct = async function* (): AsyncGenerator<FileRow<Desc>> {
    for await (const each of rows) {
      count.total += 1
      if (count.total > ROWS_MAX) {
        const text = `line ${each.line}: more than ${plain(ROWS_MAX)} rows; split the file`
        throw new Failure(EXIT.usage, text)
      }
      const repeated = each.row === undefined ? [] : repeats(seen, kind.keysOf(each.row), each.line)
      const wrong = [...each.faults, ...repeated]
      if (wrong.length > 0) faults.add(wrong)
      yield wrong.length > 0 ? { ...each, row: undefined } : each
    }
  }
  let checked = 0
  await forEachConcurrently(batchesOf(distinct()), CALLS_MAX, async (batch) => {
    const results = await send(batch.rows, true)
    const known = results.filter(({ outcome }) => outcome === ImportOutcome.DUPLICATE).length
    count.known += known
    if (known === batch.rows.length) done.add(batch.index)
    addRejected(faults, batch.lines, results)
    checked += batch.rows.length
    progress.show('validating', checked)
  })
  return done
}

/** Returns faults for the keys of a row that an earlier line has, and remembers its other keys. */
function repeats(
  seen: Map<string, number>,
  keys: readonly (readonly [field: string, key: string])[],
  line: number,
): RowFault[] {
  return keys.flatMap(([field, key]) => {
    // Short hashes of a fixed length, so that a million of them fit into memory.
    const hash = createHash('sha1').update(`${field} ${key}`).digest('latin1').slice(0, 12)
    const earlier = seen.get(hash)
    if (earlier === undefined) seen.set(hash, line)
    return earlier === undefined ? [] : [{ line, field, message: `is that of line ${earlier}` }]
  })
}

/** Yields batches of the rows that could be read, with their lines. */
async function* batchesOf<Desc extends DescMessage>(rows: AsyncIterable<FileRow<Desc>>) {
  let batch = { index: 0, lines: [] as number[], rows: [] as MessageShape<Desc>[] }
  for await (const { line, row } of rows) {
    if (row === undefined) continue
    batch.lines.push(line)
    batch.rows.push(row)
    if (batch.rows.length < BATCH_ROWS) continue
    yield batch
    batch = { index: batch.index + 1, lines: [], rows: [] }
  }
  if (batch.rows.length > 0) yield batch
}

function addRejected(
  faults: ReturnType<typeof createFaults>,
  lines: readonly number[],
  results: readonly ImportResult[],
): void {
  for (const [at, { outcome, violations }] of results.entries()) {
    if (outcome !== ImportOutcome.REJECTED) continue
    const line = lines[at] ?? 0
    faults.add(violations.map(({ field, message }) => ({ line, field, message })))
  }
}

/** @param done the batches that an earlier run imported, which are not sent again */
async function importRows<Desc extends DescMessage>(
  { send, faults, count, progress }: Run<Desc>,
  rows: AsyncIterable<FileRow<Desc>>,
  done: ReadonlySet<number>,
): Promise<void> {
  let isComplete = false
  try {
    await forEachConcurrently(batchesOf(rows), CALLS_MAX, async (batch) => {
      if (done.has(batch.index)) count.there += batch.rows.length
      else {
        const results = await send(batch.rows, false)
        for (const { outcome } of results) {
          if (outcome === ImportOutcome.IMPORTED) count.imported += 1
          if (outcome === ImportOutcome.DUPLICATE) count.there += 1
        }
        addRejected(faults, batch.lines, results)
      }
      progress.show('importing', count.imported + count.there, count.total)
    })
    isComplete = true
  } finally {
    progress.end()
    const text = `${plain(count.imported)} rows were imported; run the command again to import the rest`
    if (!isComplete) note(text)
  }
}
