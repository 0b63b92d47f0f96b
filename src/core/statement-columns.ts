import { createTimeText } from './clock.ts'
import { AMOUNT_MINOR_MAX, parseAmount } from './money.ts'

/** The columns that a bank statement may have. */
export const STATEMENT_COLUMNS = [
  'session',
  'key',
  'account',
  'amount',
  'time',
  'status',
  'direction',
  'payer',
  'narration',
] as const

/** The most headers that an error shows. */
const SHOWN_MAX = 30

export type StatementColumn = (typeof STATEMENT_COLUMNS)[number]

/** Thrown if a statement cannot be read. */
export class StatementError extends Error {
  override readonly name = 'StatementError'
  /** The column at fault. */
  readonly column: StatementColumn | undefined

  constructor(message: string, column?: StatementColumn) {
    super(message)
    this.column = column
  }
}

/** The index of each column in a record; missing columns are left out. */
export type StatementPositions = Readonly<Partial<Record<StatementColumn, number>>>

/** Headers as banks write them, in lower case, reduced to letters and digits. */
const HEADERS: Readonly<Record<StatementColumn, readonly string[]>> = {
  session: ['sessionid', 'session', 'nipsessionid', 'nibsssessionid'],
  key: ['bankkey'],
  account: [
    'accountnumber',
    'virtualaccountnumber',
    'virtualaccountno',
    'creditaccountnumber',
    'accountno',
    'account',
  ],
  amount: ['amount', 'transactionamount', 'orderamount', 'creditamount', 'credit'],
  time: [
    'paidat',
    'transactiondate',
    'trandatetime',
    'createdtime',
    'createdat',
    'datetime',
    'date',
    'time',
  ],
  status: ['status', 'orderstatus', 'transactionstatus'],
  direction: ['direction', 'drcr', 'debitcredit', 'type', 'transactiontype'],
  payer: ['payername', 'payeraccountname', 'sendername', 'sourceaccountname', 'debitaccountname'],
  narration: ['narration', 'description', 'tranremarks', 'remarks'],
}

/** The header of each bank's own payment key. */
const KEYS: Readonly<Record<string, readonly string[]>> = {
  PALMPAY: ['orderno', 'ordernumber', 'orderid'],
  PROVIDUS: ['settlementid'],
}

/**
 * Finds the columns of a statement by its headers.
 *
 * @param given headers of columns whose header is not a known one
 * @throws StatementError naming a missing or ambiguous column
 */
export function findColumns(
  bank: string,
  headers: readonly string[],
  given: ReadonlyMap<StatementColumn, string>,
): StatementPositions {
  const names = headers.map(normalizeHeader)
  const repeated = names.find((name, at) => name !== '' && names.indexOf(name) !== at)
  if (repeated)
    throw new StatementError(`the header "${headers[names.indexOf(repeated)]}" appears twice`)
  const positions: Partial<Record<StatementColumn, number>> = {}
  for (const column of STATEMENT_COLUMNS) {
    const requested = given.get(column)
    const found = (requested === undefined ? knownOf(bank, column) : [normalizeHeader(requested)])
      .map((name) => names.indexOf(name))
      .find((at) => at >= 0)
    if (found !== undefined) positions[column] = found
    else if (requested !== undefined) {
      throw new StatementError(`there is no column "${requested}"; ${foundText(headers)}`)
    }
  }
  const missing = (['account', 'amount'] as const).filter((each) => positions[each] === undefined)
  if (positions.session === undefined && positions.key === undefined)
    missing.unshift('session' as never)
  if (missing.length > 0) {
    const known = missing.map((column) => `${column} (known: ${knownHeaders(bank, column)})`)
    throw new StatementError(
      `no header matches ${known.join(', ')}; ${foundText(headers)}`,
      missing[0],
    )
  }
  return positions
}

function knownOf(bank: string, column: StatementColumn): readonly string[] {
  return [...(column === 'key' ? (KEYS[bank] ?? []) : []), ...HEADERS[column]]
}

/** Without a session id, the bank's own key identifies a payment. */
function knownHeaders(bank: string, column: StatementColumn): string {
  const keys = column === 'session' ? knownOf(bank, 'key') : []
  return [...knownOf(bank, column), ...keys].join(', ')
}

function foundText(headers: readonly string[]): string {
  const names = headers.slice(0, SHOWN_MAX).map((header) => `"${header.trim().slice(0, 40)}"`)
  return `found: ${names.join(', ')}${headers.length > SHOWN_MAX ? ', …' : ''}`
}

/** Reduces a header to its letters and digits, by which headers are compared. */
export const normalizeHeader = (header: string): string =>
  header.toLowerCase().replaceAll(/[^a-z0-9]/g, '')

/** The format of the values of a statement. */
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
 * @returns undefined if the record is a debit, or not final
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
    const isSlashed = SLASHED.test(text('time')) && format.dates === undefined
    throw invalid(
      'time',
      isSlashed
        ? 'does not say whether the day or the month comes first'
        : 'is not a time such as 2026-11-20 10:00:00',
    )
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

/** Times without a zone are in Lagos time. */
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
