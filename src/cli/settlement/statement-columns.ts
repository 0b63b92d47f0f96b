import { EXIT, Failure } from '../failure.ts'

/** What a statement may say of a payment. */
const COLUMNS = [
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

export type StatementColumn = (typeof COLUMNS)[number]

/** Where in a record each column is; one that is not there is left out. */
export type StatementPositions = Readonly<Partial<Record<StatementColumn, number>>>

/** Headers as banks write them, in lower case without anything but letters and digits. */
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

/** What each bank calls its own key. */
const KEYS: Readonly<Record<string, readonly string[]>> = {
  PALMPAY: ['orderno', 'ordernumber', 'orderid'],
  PROVIDUS: ['settlementid'],
}

/**
 * Finds the columns of a statement by its headers.
 *
 * @param given headers that the person named, by column
 * @throws Failure naming what is missing or not clear
 */
export function findColumns(
  bank: string,
  headers: readonly string[],
  given: ReadonlyMap<StatementColumn, string>,
): StatementPositions {
  const names = headers.map(plain)
  const twice = names.find((name, at) => name !== '' && names.indexOf(name) !== at)
  if (twice) throw fault(`the header "${headers[names.indexOf(twice)]}" is there twice`)
  const places: Partial<Record<StatementColumn, number>> = {}
  for (const column of COLUMNS) {
    const wanted = given.get(column)
    const known = [...(column === 'key' ? (KEYS[bank] ?? []) : []), ...HEADERS[column]]
    const found = (wanted === undefined ? known : [plain(wanted)])
      .map((name) => names.indexOf(name))
      .find((at) => at >= 0)
    if (found !== undefined) places[column] = found
    else if (wanted !== undefined) throw fault(`it has no column "${wanted}"`)
  }
  const missing = (['account', 'amount'] as const).filter((each) => places[each] === undefined)
  if (places.session === undefined && places.key === undefined) missing.unshift('session' as never)
  if (missing.length > 0) {
    const names = missing.join(', ')
    throw fault(`no column is known as ${names}: name it, as in --columns ${missing[0]}="…"`)
  }
  return places
}

/** Reads `session=NIP Session,amount=Credit`. @throws Failure */
export function parseColumns(text: string): Map<StatementColumn, string> {
  const given = new Map<StatementColumn, string>()
  for (const pair of text.split(',')) {
    const [name = '', ...rest] = pair.split('=')
    const column = COLUMNS.find((each) => each === name.trim())
    if (column === undefined || plain(rest.join('=')) === '') {
      const known = COLUMNS.join(', ')
      throw new Failure(EXIT.usage, `--columns is like session=…,amount=…; columns: ${known}`)
    }
    given.set(column, rest.join('='))
  }
  return given
}

const plain = (header: string): string => header.toLowerCase().replaceAll(/[^a-z0-9]/g, '')

function fault(text: string): Failure {
  return new Failure(EXIT.usage, `line 1: ${text}`)
}
