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

/** How many headers an error shows. */
const SHOWN_MAX = 30

export type StatementColumn = (typeof STATEMENT_COLUMNS)[number]

/** Why a statement cannot be read. */
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
 * @param given headers by column, where they are not the known ones
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

/** Headers are compared by their letters and digits alone. */
export const normalizeHeader = (header: string): string =>
  header.toLowerCase().replaceAll(/[^a-z0-9]/g, '')
