import { createTimeText } from './clock.ts'
import { AMOUNT_MINOR_MAX, parseAmount } from './money.ts'
import {
  type StatementColumn,
  StatementError,
  type StatementPositions,
} from './statement-columns.ts'

/** How the values of a statement are written. */
export interface ValueFormat {
  /** How to read dates such as 02/03/2026. */
  readonly dates: 'day-first' | 'month-first' | undefined
  readonly unit: 'naira' | 'kobo'
}

/** A final credit of a statement. */
export interface StatementCredit {
  readonly sessionId: string
  readonly bankKey: string
  readonly accountNumber: string
  readonly amountMinor: bigint
  readonly paidAtMs: number | undefined
  readonly status: 'SUCCESS' | 'FAILED' | 'REVERSED'
  readonly payerName: string
  readonly narration: string
}

const DEBIT = /^(d|dr|debit|outwards?|withdrawal)$/i
const SUCCESS = /^(|1|00|0|success|successful|completed?|paid|approved|settled)$/i
const REVERSED = /^(reversed|reversal|refunded)$/i
const FAILED = /^(failed|failure|declined|rejected)$/i
const PENDING = /^(pending|processing|initiated)$/i

/**
 * Reads the fields of a record.
 *
 * @returns undefined if it is a debit, or not final
 * @throws StatementError naming the column and its value
 */
export function readCredit(
  format: ValueFormat,
  positions: StatementPositions,
  fields: readonly string[],
): StatementCredit | undefined {
  const text = (column: StatementColumn): string => {
    const position = positions[column]
    return position === undefined ? '' : (fields[position] ?? '').trim()
  }
  const invalid = (column: StatementColumn, expected: string) =>
    new StatementError(
      `column ${(positions[column] ?? 0) + 1} (${column}): "${text(column)}" ${expected}`,
      column,
    )
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
    throw invalid('time', 'is not a time such as 2026-11-20 10:00:00')
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
    payerName: printable('payer', 200),
    narration: printable('narration', 500),
  }
}

function toStatus(text: string): StatementCredit['status'] | undefined {
  if (SUCCESS.test(text)) return 'SUCCESS'
  if (REVERSED.test(text)) return 'REVERSED'
  return FAILED.test(text) ? 'FAILED' : undefined
}

/** "1,500.50" → 150050n; commas only between groups of three digits. */
function toMinor(text: string, unit: ValueFormat['unit']): bigint | undefined {
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
function toMs(text: string, dates: ValueFormat['dates']): number | undefined {
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
