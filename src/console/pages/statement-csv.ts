import {
  findColumns,
  readCredit,
  type StatementColumn,
  type StatementCredit,
  StatementError,
  type StatementPositions,
  type ValueFormat,
} from '../../core/statement-columns.ts'

interface CsvRecord {
  /** The line on which the record ends, counted from 1. */
  readonly line: number
  readonly fields: readonly string[]
}

export interface StatementTable {
  readonly headers: readonly string[]
  readonly records: readonly CsvRecord[]
}

export interface StatementRow {
  readonly line: number
  readonly credit: StatementCredit
}

export interface StatementFormat extends ValueFormat {
  /** The name of the bank in the contract, such as 9PSB. */
  readonly bank: string
  /** The headers of columns whose header is not a known one. */
  readonly columns: ReadonlyMap<StatementColumn, string>
}

/** The largest file in bytes, and the most rows, because the browser holds all of them in memory. */
const FILE_BYTES_MAX = 32 * 1024 * 1024
const ROWS_MAX = 100_000

const RECORD_BYTES_MAX = 65_536

/** Reads a CSV file (RFC 4180). @throws StatementError */
export async function readTable(file: Blob): Promise<StatementTable> {
  if (file.size > FILE_BYTES_MAX) {
    throw new StatementError(
      'the file has more than 32 MiB; the command "inflow reconcile" reads it',
    )
  }
  const text = await decode(file)
  const { CsvError, parse } = await import('csv-parse/browser/esm/sync')
  try {
    const read = parse(text, {
      bom: true,
      info: true,
      record_delimiter: ['\r\n', '\n'],
      relax_column_count: true,
      skip_empty_lines: true,
      max_record_size: RECORD_BYTES_MAX,
    }) as unknown as readonly {
      readonly info: { readonly lines: number }
      readonly record: string[]
    }[]
    const [head, ...records] = read.map(({ info, record }) => ({
      line: info.lines,
      fields: record,
    }))
    if (head === undefined) throw new StatementError('the file is empty')
    if (records.length > ROWS_MAX) {
      throw new StatementError(
        `the file has more than ${ROWS_MAX} rows; the command "inflow reconcile" reads it`,
      )
    }
    return { headers: head.fields, records }
  } catch (error) {
    throw error instanceof CsvError ? new StatementError(error.message) : error
  }
}

/** Decodes UTF-8, with or without a byte order mark. */
async function decode(file: Blob): Promise<string> {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer())
  } catch (error) {
    if (error instanceof TypeError) throw new StatementError('the file is not UTF-8')
    throw error
  }
}

export interface ReadStatement {
  readonly positions: StatementPositions | undefined
  readonly rows: readonly StatementRow[]
  /** The number of skipped rows: debits, and payments that are not final. */
  readonly skipped: number
  /** A required column without a header; undefined: none is missing. */
  readonly missing: StatementColumn | undefined
  /** At most 20 faults. */
  readonly faults: readonly string[]
}

const FAULTS_MAX = 20

/** Reads the credits of a table. A statement with faults is not compared, because its meaning is not certain. */
export function readCredits(
  { headers, records }: StatementTable,
  format: StatementFormat,
): ReadStatement {
  const faults: string[] = []
  const rows: StatementRow[] = []
  let positions: StatementPositions | undefined
  let missing: StatementColumn | undefined
  let skipped = 0
  /** Replaces the position and name of a column in a text by its header, which the viewer knows. */
  const worded = (text: string) =>
    text.replace(/^column (\d+) \(\w+\):/, (_all, place) => `${headers[place - 1] ?? place}:`)
  const attempt = (line: number, read: () => void) => {
    try {
      read()
    } catch (error) {
      if (!(error instanceof StatementError)) throw error
      if (positions === undefined) missing = error.column
      faults.push(`Line ${line}: ${worded(error.message)}`)
    }
  }
  attempt(1, () => {
    positions = findColumns(format.bank, headers, format.columns)
  })
  const found: StatementPositions | undefined = positions
  for (const { line, fields } of found ? records : []) {
    if (faults.length >= FAULTS_MAX) break
    attempt(line, () => {
      if (fields.length !== headers.length) {
        throw new StatementError(
          `it has ${fields.length} columns, but the header has ${headers.length}`,
        )
      }
      const credit = readCredit(format, found ?? {}, fields)
      if (credit === undefined) skipped += 1
      else rows.push({ line, credit })
    })
  }
  return { positions, rows, skipped, missing, faults }
}
