import { createReadStream } from 'node:fs'
import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import type { StatementRowSchema } from '../../../gen/inflow/reconciliation/v1/statement_pb.ts'
import { TransactionStatus } from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { createTimeText } from '../../core/clock.ts'
import { AMOUNT_MINOR_MAX, parseAmount } from '../../core/money.ts'
import { EXIT, Failure } from '../failure.ts'
import { CsvError, readCsv } from '../read-csv.ts'
import {
  findColumns,
  type StatementColumn,
  type StatementPositions,
} from '../settlement/statement-columns.ts'

/** How to read a statement. */
export interface StatementFormat {
  /** Its code, such as 9PSB. */
  readonly bank: string
  readonly file: string
  /** Headers by column, if they are not the default ones. */
  readonly columns: ReadonlyMap<StatementColumn, string>
  /** How to read dates such as 02/03/2026. */
  readonly dates: 'day-first' | 'month-first' | undefined
  readonly unit: 'naira' | 'kobo'
}

export interface StatementLine {
  /** Line number in the file, from 1. */
  readonly line: number
  /** Undefined if it is not a final credit. */
  readonly row: (MessageInitShape<typeof StatementRowSchema> & StatementFacts) | undefined
}

interface StatementFacts {
  readonly sessionId: string
  readonly bankKey: string
  readonly accountNumber: string
  readonly amountMinor: bigint
  readonly paidAtMs: number | undefined
}

/** Reads a statement line by line. @throws Failure naming the line and its error */
export async function* readStatement(format: StatementFormat): AsyncGenerator<StatementLine> {
  let positions: StatementPositions | undefined
  let width = 0
  try {
    for await (const { line, fields } of readCsv(textOf(format.file))) {
      if (positions === undefined) {
        positions = findColumns(format.bank, fields, format.columns)
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

/** UTF-8, with or without a byte order mark. */
async function* textOf(file: string): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  try {
    for await (const bytes of createReadStream(file)) yield decoder.decode(bytes, { stream: true })
    yield decoder.decode()
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const reason = code === 'ERR_ENCODING_INVALID_ENCODED_DATA' ? 'it is not UTF-8' : String(code)
    throw new Failure(EXIT.usage, `cannot read ${file}: ${reason}`)
  }
}

const DEBIT = /^(d|dr|debit|outwards?|withdrawal)$/i
const SUCCESS = /^(|1|00|0|success|successful|completed?|paid|approved|settled)$/i
const REVERSED = /^(reversed|reversal|refunded)$/i
const FAILED = /^(failed|failure|declined|rejected)$/i
const PENDING = /^(pending|processing|initiated)$/i

function toRow(
  format: StatementFormat,
  positions: StatementPositions,
  line: number,
  fields: readonly string[],
): StatementLine['row'] {
  const text = (column: StatementColumn): string => {
    const position = positions[column]
    return position === undefined ? '' : (fields[position] ?? '').trim()
  }
  const invalid = (column: StatementColumn, expected: string) =>
    fault(line, `column ${(positions[column] ?? 0) + 1} (${column}): "${text(column)}" ${expected}`)
  if (DEBIT.test(text('direction')) || PENDING.test(text('status'))) return undefined
  const [sessionId, bankKey] = [text('session'), text('key')]
  for (const [column, id] of [
    ['session', sessionId],
    ['key', bankKey],
  ] as const) {
    if (!/^[A-Za-z0-9_./-]{0,64}$/.test(id)) throw invalid(column, 'is not a valid id')
  }
  if (sessionId === '' && bankKey === '') {
    throw invalid(
      positions.session === undefined ? 'key' : 'session',
      'does not identify the payment',
    )
  }
  const accountNumber = text('account')
  if (!/^\d{10}$/.test(accountNumber)) throw invalid('account', 'does not have ten digits')
  const amountMinor = toMinor(text('amount'), format.unit)
  if (amountMinor === undefined) throw invalid('amount', `is not an amount in ${format.unit}`)
  const paidAtMs = text('time') === '' ? undefined : toMs(text('time'), format.dates)
  if (text('time') !== '' && paidAtMs === undefined) {
    throw invalid('time', 'is not a time such as 2026-11-20 10:00:00; for 20/11/2026 give --dates')
  }
  const status = toStatus(text('status'))
  if (status === undefined) throw invalid('status', 'is not a known status')
  const printable = (column: StatementColumn, charactersMax: number) =>
    [...text(column).replaceAll(/[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]+/gu, ' ')]
      .slice(0, charactersMax)
      .join('')
  return {
    sessionId,
    bankKey,
    accountNumber,
    amountMinor,
    paidAtMs,
    status,
    payer: { name: printable('payer', 200) },
    narration: printable('narration', 500),
    ...(paidAtMs !== undefined && { paidAt: timestampFromMs(paidAtMs) }),
  }
}

function toStatus(text: string): TransactionStatus | undefined {
  if (SUCCESS.test(text)) return TransactionStatus.SUCCESS
  if (REVERSED.test(text)) return TransactionStatus.REVERSED
  return FAILED.test(text) ? TransactionStatus.FAILED : undefined
}

/** "1,500.50" → 150050n; commas only between groups of three digits. */
function toMinor(text: string, unit: StatementFormat['unit']): bigint | undefined {
  const digits = /^\d{1,3}(,\d{3})+(\.\d+)?$/.test(text) ? text.replaceAll(',', '') : text
  const whole = unit === 'kobo' && /^\d{1,16}$/.test(digits) ? BigInt(digits) : undefined
  const amountMinor = unit === 'kobo' ? whole : parseAmount(digits)
  if (!amountMinor || amountMinor > AMOUNT_MINOR_MAX) return undefined
  return amountMinor
}

/** Banks that give no time zone mean Lagos. */
const lagos = createTimeText('Africa/Lagos')

const SLASHED = /^(\d{1,2})[/-](\d{1,2})[/-](\d{4})(.*)$/

/** @returns epoch milliseconds; undefined if the text is not a time or is ambiguous */
function toMs(text: string, dates: StatementFormat['dates']): number | undefined {
  const slashed = SLASHED.exec(text)
  if (slashed && dates === undefined) return undefined
  const [, one = '', two = '', year = '', rest = ''] = slashed ?? []
  const [day, month] = dates === 'day-first' ? [one, two] : [two, one]
  const iso = slashed ? `${year}-${month.padStart(2, '0')}-${day.padStart(2, '0')}${rest}` : text
  const [, date = '', time = '00:00', seconds = ':00', zone = ''] =
    /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(:\d\d)?(?:\.\d{1,9})?(Z|[+-]\d\d:\d\d)?)?$/.exec(iso) ??
    []
  if (date === '') return undefined
  const local = `${date}${zone === '' ? ' ' : 'T'}${time}${seconds}${zone}`
  const atMs = lagos.parse(local)
  return atMs !== undefined && /^20\d\d-/.test(date) ? atMs : undefined
}

function fault(line: number, text: string): Failure {
  return new Failure(EXIT.usage, `line ${line}, ${text}`)
}
