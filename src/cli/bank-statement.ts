import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import type { StatementRowSchema } from '../../gen/inflow/reconciliation/v1/statement_pb.ts'
import { TransactionStatus } from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import {
  findColumns,
  readCredit,
  type StatementColumn,
  type StatementCredit,
  StatementError,
  type StatementPositions,
  type ValueFormat,
} from '../core/statement-columns.ts'
import { EXIT, Failure } from './failure.ts'
import { CsvError, readCsv, readText } from './read-csv.ts'

/** How to read a statement. */
export interface StatementFormat extends ValueFormat {
  /** Its code, such as 9PSB. */
  readonly bank: string
  readonly file: string
  /** Headers by column, if they are not the default ones. */
  readonly columns: ReadonlyMap<StatementColumn, string>
}

/** A row for the service, with the time in milliseconds. */
type StatementRow = MessageInitShape<typeof StatementRowSchema> &
  Pick<StatementCredit, 'sessionId' | 'bankKey' | 'accountNumber' | 'amountMinor' | 'paidAtMs'>

export interface StatementLine {
  /** Line number in the file, from 1. */
  readonly line: number
  /** Undefined if it is not a final credit. */
  readonly row: StatementRow | undefined
}

/** Reads a statement line by line. @throws Failure naming the line and its error */
export async function* readStatement(format: StatementFormat): AsyncGenerator<StatementLine> {
  let positions: StatementPositions | undefined
  let width = 0
  try {
    for await (const { line, fields } of readCsv(readText(format.file))) {
      if (positions === undefined) {
        positions = columnsOf(format, fields)
        width = fields.length
      } else if (fields.length !== width) {
        throw fault(line, `has ${fields.length} columns, but the header has ${width}`)
      } else yield { line, row: toRow(format, positions, line, fields) }
    }
  } catch (error) {
    if (error instanceof CsvError) throw new Failure(EXIT.usage, error.message)
    throw error
  }
  if (positions === undefined) throw new Failure(EXIT.usage, 'line 1: the file is empty')
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
    throw fault(line, error.message + hint)
  }
}

function fault(line: number, text: string): Failure {
  return new Failure(EXIT.usage, `line ${line}, ${text}`)
}
