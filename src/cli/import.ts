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
import { forEachConcurrently } from '../core/for-each-concurrently.ts'
import { EXIT, Failure } from './failure.ts'
import { type FileRow, type RowFault, readRows } from './import-rows.ts'
import { jsonText, note, print } from './output.ts'
import { commandProgress, type Progress } from './progress.ts'
import { BUSINESS } from './rpc-verb.ts'
import { serviceAction } from './service-action.ts'
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

/** `inflow import` */
export function importNoun(noun: Command): void {
  addVerbs(noun, IMPORT_HELP, {
    accounts: calling(importAccounts),
    transactions: calling(importTransactions),
  })
  for (const verb of noun.commands) {
    verb.addHelpText(
      'after',
      '\nThe columns are the fields of the contract, such as account_number or accountNumber; amount is in\n' +
        'naira. Nothing is imported if any row is wrong. A run that was interrupted is repeated.',
    )
  }
}

interface Options {
  readonly business?: string
  readonly test?: boolean
  readonly dryRun?: boolean
}

const ACCOUNTS: ImportKind<typeof ImportedAccountSchema> = {
  schema: ImportedAccountSchema,
  keysOf: ({ reference, providerReference, bank, accountNumber }) => [
    ['reference', reference],
    ['providerReference', providerReference],
    ['accountNumber', `${bank} ${accountNumber}`],
  ],
}

const importAccounts = serviceAction<Options>(async (service, options, file) => {
  const businessId = service.business(options.business)
  const client = service.client(AccountService)
  await importFile(ACCOUNTS, file, options, async (accounts, validateOnly) => {
    const request = { businessId, test: options.test ?? false, validateOnly, accounts }
    return (await client.importAccounts(request)).results
  })
})

const TRANSACTIONS: ImportKind<typeof ImportedTransactionSchema> = {
  schema: ImportedTransactionSchema,
  keysOf: ({ bank, sessionId }) => [['sessionId', `${bank} ${sessionId}`]],
}

const importTransactions = serviceAction<Options>(async (service, options, file) => {
  const businessId = service.business(options.business)
  const client = service.client(TransactionService)
  await importFile(TRANSACTIONS, file, options, async (transactions, validateOnly) => {
    const request = { businessId, test: options.test ?? false, validateOnly, transactions }
    return (await client.importTransactions(request)).results
  })
})

/** What a file has rows of. */
interface ImportKind<Desc extends DescMessage> {
  readonly schema: Desc
  /** What must be unique in the file, with the field to name. */
  readonly keysOf: (row: MessageShape<Desc>) => readonly (readonly [field: string, key: string])[]
}

/** Imports some rows, or says what the results would be. */
type Send<Row> = (rows: Row[], validateOnly: boolean) => Promise<readonly ImportResult[]>

interface ImportOptions {
  readonly dryRun?: boolean
  readonly json?: boolean
}

/** The keys of so many rows take about 100 MB. */
const ROWS_MAX = 1_000_000

/** The rows of a call. */
const BATCH_ROWS = 1_000

/** The service works on one while the next one is read. */
const CALLS_MAX = 3

const FAULTS_SHOWN_MAX = 100

/**
 * Imports the rows of a file, in two passes: the first one validates all of it, and nothing is imported if any row is
 * wrong. What was imported before counts as there, so a run that was interrupted is repeated.
 *
 * @throws Failure if a row is wrong
 */
async function importFile<Desc extends DescMessage>(
  { schema, keysOf }: ImportKind<Desc>,
  file: string,
  { dryRun = false, json = false }: ImportOptions,
  send: Send<MessageShape<Desc>>,
): Promise<void> {
  const progress = commandProgress(json)
  try {
    const faults = createFaults()
    const rows = () => readRows(schema, file)
    const found = await validate(rows(), keysOf, send, faults, progress)
    const { total, there } = found
    const count = { imported: 0, there: 0 }
    if (!dryRun && faults.count() === 0) {
      await importRows(rows(), found, send, { faults, count, progress })
    }
    progress.end()
    const summary = dryRun
      ? `${plain(total - there - faults.rows())} would be imported, ${plain(there)} already there`
      : `${plain(count.imported)} imported, ${plain(count.there)} already there`
    const imported = dryRun ? 0 : count.imported
    const report = { rows: total, imported, alreadyThere: there, dryRun, faults: faults.first() }
    if (json) print(jsonText({ ...report, faultCount: faults.count() }, 2))
    else {
      for (const each of faults.first()) print(faultText(each))
      if (faults.count() === 0) print(summary)
    }
    if (faults.count() > 0) throw wrongRows(faults.count(), count.imported)
  } finally {
    progress.end()
  }
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

/** Keeps the first faults by line, and counts them all. */
function createFaults() {
  let kept: RowFault[] = []
  let count = 0
  let wrong = 0
  const cut = () => {
    kept = kept.sort((a, b) => a.line - b.line).slice(0, FAULTS_SHOWN_MAX)
    return kept
  }
  return {
    /** @param faults those of one row */
    add(faults: readonly RowFault[]) {
      count += faults.length
      wrong += 1
      kept.push(...faults)
      if (kept.length > 2 * FAULTS_SHOWN_MAX) cut()
    },
    count: () => count,
    /** How many rows have any. */
    rows: () => wrong,
    first: (): readonly RowFault[] => cut(),
  }
}

type Faults = ReturnType<typeof createFaults>

/** What the first pass found. */
interface Found {
  readonly total: number
  readonly there: number
  /** The batches whose rows are all there. */
  readonly done: ReadonlySet<number>
}

/** A call's rows with their lines. */
interface Batch<Row> {
  readonly index: number
  readonly lines: readonly number[]
  readonly rows: Row[]
}

async function validate<Desc extends DescMessage>(
  rows: AsyncIterable<FileRow<Desc>>,
  keysOf: ImportKind<Desc>['keysOf'],
  send: Send<MessageShape<Desc>>,
  faults: Faults,
  progress: Progress,
): Promise<Found> {
  const done = new Set<number>()
  let [total, there, checked] = [0, 0, 0]
  const seen = new Map<string, number>()
  const distinct = async function* (): AsyncGenerator<FileRow<Desc>> {
    for await (const each of rows) {
      total += 1
      if (total > ROWS_MAX) {
        const text = `line ${each.line}: more than ${plain(ROWS_MAX)} rows; split the file`
        throw new Failure(EXIT.usage, text)
      }
      const repeated = each.row === undefined ? [] : repeats(seen, keysOf(each.row), each.line)
      const wrong = [...each.faults, ...repeated]
      if (wrong.length > 0) faults.add(wrong)
      yield wrong.length > 0 ? { ...each, row: undefined } : each
    }
  }
  await forEachConcurrently(batchesOf(distinct()), CALLS_MAX, async (batch) => {
    const results = await send(batch.rows, true)
    const known = results.filter(({ outcome }) => outcome === ImportOutcome.DUPLICATE).length
    there += known
    if (known === batch.rows.length) done.add(batch.index)
    addRejected(faults, batch, results)
    checked += batch.rows.length
    progress.show('validating', checked)
  })
  return { total, there, done }
}

/** The keys of a row that an earlier line has; those that are new are noted. */
function repeats(
  seen: Map<string, number>,
  keys: readonly (readonly [field: string, key: string])[],
  line: number,
): RowFault[] {
  return keys.flatMap(([field, key]) => {
    // Short texts of a fixed length, so that a million of them fit.
    const hash = createHash('sha1').update(`${field} ${key}`).digest('latin1').slice(0, 12)
    const earlier = seen.get(hash)
    if (earlier === undefined) seen.set(hash, line)
    return earlier === undefined ? [] : [{ line, field, message: `is that of line ${earlier}` }]
  })
}

/** Batches of the rows that could be read. */
async function* batchesOf<Desc extends DescMessage>(
  rows: AsyncIterable<FileRow<Desc>>,
): AsyncGenerator<Batch<MessageShape<Desc>>> {
  let index = 0
  let batch: { lines: number[]; rows: MessageShape<Desc>[] } = { lines: [], rows: [] }
  for await (const { line, row } of rows) {
    if (row === undefined) continue
    batch.lines.push(line)
    batch.rows.push(row)
    if (batch.rows.length < BATCH_ROWS) continue
    yield { index, ...batch }
    index += 1
    batch = { lines: [], rows: [] }
  }
  if (batch.rows.length > 0) yield { index, ...batch }
}

function addRejected<Row>(
  faults: Faults,
  { lines, rows }: Batch<Row>,
  results: readonly ImportResult[],
): void {
  if (results.length !== rows.length) throw new Error('the service returned results for other rows')
  for (const [at, { outcome, violations }] of results.entries()) {
    if (outcome !== ImportOutcome.REJECTED) continue
    const line = lines[at] ?? 0
    faults.add(violations.map(({ field, message }) => ({ line, field, message })))
  }
}

async function importRows<Desc extends DescMessage>(
  rows: AsyncIterable<FileRow<Desc>>,
  { total, done }: Found,
  send: Send<MessageShape<Desc>>,
  into: {
    readonly faults: Faults
    readonly count: { imported: number; there: number }
    readonly progress: Progress
  },
): Promise<void> {
  const { faults, count, progress } = into
  let isComplete = false
  try {
    await forEachConcurrently(batchesOf(rows), CALLS_MAX, async (batch) => {
      // What a run before imported is not sent again.
      if (done.has(batch.index)) count.there += batch.rows.length
      else {
        const results = await send(batch.rows, false)
        for (const { outcome } of results) {
          if (outcome === ImportOutcome.IMPORTED) count.imported += 1
          if (outcome === ImportOutcome.DUPLICATE) count.there += 1
        }
        addRejected(faults, batch, results)
      }
      progress.show('importing', count.imported + count.there, total)
    })
    isComplete = true
  } finally {
    progress.end()
    const text = `${plain(count.imported)} rows were imported; run the command again to import the rest`
    if (!isComplete) note(text)
  }
}
