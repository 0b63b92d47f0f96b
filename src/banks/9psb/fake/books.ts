import type { Clock } from '../../../core/clock.ts'
import { parseNaira } from '../../amount.ts'
import { BANK_FACTS } from '../../bank.ts'
import { createFakeIds } from '../../fake/fake-ids.ts'
import { getPath } from '../../get-path.ts'
import { type NinePsbTransaction, toListed } from './transaction.ts'

export interface NinePsbAccount {
  readonly accountNumber: string
  readonly reference: string
  readonly name: string
  active: boolean
}

/** The fields that a payment may set; the rest is generated. */
export type NinePsbPayment = Partial<
  Pick<NinePsbTransaction, 'sessionId' | 'senderName' | 'senderAccountNumber' | 'description'>
> & {
  /** When it is received, epoch milliseconds; default: now. */
  readonly atMs?: number
}

/** The JSON of a response. */
export type NinePsbBody = Readonly<Record<string, unknown>>

/** The accounts and payments of the fake bank, and its API methods. */
export interface NinePsbBooks {
  /** By number. */
  readonly accounts: ReadonlyMap<string, NinePsbAccount>
  readonly transactions: readonly NinePsbTransaction[]
  /** @throws RangeError if there are too many */
  open(name: string, reference: string): NinePsbAccount
  /** @throws RangeError if no active account has the number, or for an invalid amount */
  receive(accountNumber: string, amount: string, payment?: NinePsbPayment): NinePsbTransaction
  /** @param text the request's body, parts of which are echoed */
  create(body: unknown, text: string): NinePsbBody
  deactivate(body: unknown, text: string): NinePsbBody
  confirm(body: unknown): NinePsbBody
}

export const SUCCESS = { code: '00', message: 'Success' }

const ROWS_MAX = 200_000
const LISTED_MAX = 10
const SENDER_BANK = '000013'

export function createNinePsbBooks(clock: Clock): NinePsbBooks {
  const ids = createFakeIds(clock, BANK_FACTS['9PSB'].nubanCode, SENDER_BANK)
  const accounts = new Map<string, NinePsbAccount>()
  const references = new Set<string>()
  const transactions: NinePsbTransaction[] = []
  /** By account, oldest first. */
  const received = new Map<string, NinePsbTransaction[]>()
  const open = (name: string, reference: string): NinePsbAccount => {
    if (accounts.size >= ROWS_MAX)
      throw new RangeError(`the limit of ${ROWS_MAX} accounts is reached`)
    const account = { accountNumber: ids.accountNumber(), reference, name, active: true }
    references.add(reference)
    accounts.set(account.accountNumber, account)
    received.set(account.accountNumber, [])
    return account
  }
  return {
    accounts,
    transactions,
    open,
    receive(accountNumber, amount, payment = {}) {
      const account = accounts.get(accountNumber)
      const amountMinor = parseNaira(amount)
      if (!account?.active) throw new RangeError(`no active account ${accountNumber}`)
      if (!amountMinor) throw new RangeError(`invalid naira amount: ${amount}`)
      if (transactions.length >= ROWS_MAX)
        throw new RangeError(`the limit of ${ROWS_MAX} payments is reached`)
      const { atMs = clock.now(), ...details } = payment
      const [sessionId, date] = [ids.sessionId(atMs), ids.localTime(atMs)]
      const transaction = { sessionId, date, amountMinor, ...transferTo(account), ...details }
      transactions.push(transaction)
      received.get(accountNumber)?.push(transaction)
      return transaction
    },
    create(body, text) {
      const reference = getPath(body, 'transaction.reference')
      const fault = orderFault(body) ?? (references.has(reference) ? REFERENCE_USED : undefined)
      const request = JSON.parse(text) as { customer?: { account?: object } }
      const echo = (number: string | null, bank: string | null) => ({
        ...request,
        customer: { account: { ...request.customer?.account, expiry: null, number, bank } },
      })
      if (fault) return { ...rejection(fault), ...echo(null, null) }
      const { accountNumber } = open(getPath(body, 'customer.account.name'), reference)
      return { ...SUCCESS, ...echo(accountNumber, '9PSB') }
    },
    deactivate(body, text) {
      const account = accounts.get(getPath(body, 'customer.account.number'))
      const request = JSON.parse(text) as object
      if (!account) return { ...rejection('account number to deactivate not found.'), ...request }
      account.active = false
      return { ...SUCCESS, ...request }
    },
    confirm: (body) => confirm(body, received.get(getPath(body, 'accountnumber')) ?? []),
  }
}

/** The fields of a transfer to an account that its test may replace. */
function transferTo(account: NinePsbAccount) {
  return {
    reference: account.reference,
    accountNumber: account.accountNumber,
    accountName: account.name,
    senderName: 'BENSON MALIK',
    senderAccountNumber: '1003245245',
    senderBankCode: SENDER_BANK,
    senderBankName: 'GTBank Plc',
    description: `TRF/${account.name}`,
  }
}

/** @param received the payments into the requested account, oldest first */
function confirm(body: unknown, received: readonly NinePsbTransaction[]): NinePsbBody {
  const reference = getPath(body, 'reference')
  const sessionId = getPath(body, 'sessionid')
  const amount = getPath(body, 'amount')
  if (getPath(body, 'accountnumber') === '')
    return { transactions: null, ...rejection('accountnumber is mandatory') }
  if (reference + sessionId === '') {
    return { transactions: null, ...rejection('reference or sessionid is mandatory') }
  }
  const matching = received.filter(
    (transaction) =>
      (reference === '' || transaction.reference === reference) &&
      (sessionId === '' || transaction.sessionId === sessionId) &&
      (amount === '' || transaction.amountMinor === parseNaira(amount)),
  )
  const latest = matching.slice(-LISTED_MAX).reverse()
  return { transactions: latest.map(toListed), ...SUCCESS }
}

const REFERENCE_USED = 'reference number must be unique.'

function rejection(reason: string): NinePsbBody {
  return { code: '47', message: `Invalid transaction request - ${reason}` }
}

/** @returns the error in a request to open an account, if any */
function orderFault(body: unknown): string | undefined {
  const field = (path: string) => getPath(body, path).trim()
  if (field('transaction.reference') === '') return 'reference is mandatory.'
  if (field('customer.account.name') === '') return 'account name is mandatory.'
  const type = field('customer.account.type')
  if (type !== 'STATIC' && type !== 'DYNAMIC') return 'account type is invalid.'
  if (type === 'DYNAMIC' && !/^([1-9]|1\d|2[0-4])$/.test(field('customer.account.expiry.hours'))) {
    return 'expiry is invalid.'
  }
  if (field('order.currency') !== 'NGN') return 'currency is invalid.'
  if (field('order.country') !== 'NGA') return 'country is invalid.'
  if (!/^(ANY|EXACT|HIGHEROREXACT|LOWEROREXACT)$/.test(field('order.amounttype'))) {
    return 'amounttype is invalid.'
  }
  return undefined
}
