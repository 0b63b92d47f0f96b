import { parseNaira } from '../../banks/amount.ts'
import { BANK_FACTS } from '../../banks/bank.ts'
import { getPath } from '../../banks/get-path.ts'
import type { Clock } from '../../core/clock.ts'
import { createFakeIds } from '../fake-ids.ts'
import { type NinePsbTransaction, toListed } from './transaction.ts'

export interface NinePsbAccount {
  readonly accountNumber: string
  readonly reference: string
  readonly name: string
  active: boolean
}

/** What a payment may say; the rest is made up. */
export type NinePsbPayment = Partial<
  Pick<NinePsbTransaction, 'sessionId' | 'senderName' | 'senderAccountNumber' | 'description'>
> & {
  /** When it is received, epoch milliseconds; now. */
  readonly atMs?: number
}

/** The JSON of an answer. */
export type Shown = Readonly<Record<string, unknown>>

/** The accounts and payments of the fake bank, and what its methods do with them. */
export interface NinePsbBooks {
  /** By number. */
  readonly accounts: ReadonlyMap<string, NinePsbAccount>
  readonly transactions: readonly NinePsbTransaction[]
  /** @throws RangeError when there are too many */
  open(name: string, reference: string): NinePsbAccount
  /** @throws RangeError when no such account takes money, or it is no amount */
  receive(accountNumber: string, amount: string, payment?: NinePsbPayment): NinePsbTransaction
  /** @param text the request's body, parts of which are sent back */
  create(body: unknown, text: string): Shown
  deactivate(body: unknown, text: string): Shown
  confirm(body: unknown): Shown
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
  /** By account, the newest last. */
  const received = new Map<string, NinePsbTransaction[]>()
  const open = (name: string, reference: string): NinePsbAccount => {
    if (accounts.size >= ROWS_MAX) throw new RangeError(`it has ${ROWS_MAX} accounts`)
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
      if (!account?.active) throw new RangeError(`no account ${accountNumber} takes money`)
      if (!amountMinor) throw new RangeError(`no amount of naira: ${amount}`)
      if (transactions.length >= ROWS_MAX) throw new RangeError(`it has ${ROWS_MAX} payments`)
      const { atMs = clock.now(), ...details } = payment
      const transaction = {
        reference: account.reference,
        sessionId: ids.sessionId(atMs),
        date: ids.localTime(atMs),
        accountNumber,
        accountName: account.name,
        amountMinor,
        senderName: 'BENSON MALIK',
        senderAccountNumber: '1003245245',
        senderBankCode: SENDER_BANK,
        senderBankName: 'GTBank Plc',
        description: `TRF/${account.name}`,
        ...details,
      }
      transactions.push(transaction)
      received.get(accountNumber)?.push(transaction)
      return transaction
    },
    create(body, text) {
      const reference = getPath(body, 'transaction.reference')
      const fault = orderFault(body) ?? (references.has(reference) ? USED : undefined)
      const sent = JSON.parse(text) as { customer?: { account?: object } }
      const shown = (number: string | null, bank: string | null) => ({
        ...sent,
        customer: { account: { ...sent.customer?.account, expiry: null, number, bank } },
      })
      if (fault) return { ...refusal(fault), ...shown(null, null) }
      const { accountNumber } = open(getPath(body, 'customer.account.name'), reference)
      return { ...SUCCESS, ...shown(accountNumber, '9PSB') }
    },
    deactivate(body, text) {
      const account = accounts.get(getPath(body, 'customer.account.number'))
      const sent = JSON.parse(text) as object
      if (!account) return { ...refusal('account number to deactivate not found.'), ...sent }
      account.active = false
      return { ...SUCCESS, ...sent }
    },
    confirm(body) {
      const reference = getPath(body, 'reference')
      const sessionId = getPath(body, 'sessionid')
      const amount = getPath(body, 'amount')
      const accountNumber = getPath(body, 'accountnumber')
      if (accountNumber === '')
        return { transactions: null, ...refusal('accountnumber is mandatory') }
      if (reference + sessionId === '') {
        return { transactions: null, ...refusal('reference or sessionid is mandatory') }
      }
      const matching = (received.get(accountNumber) ?? []).filter(
        (transaction) =>
          (reference === '' || transaction.reference === reference) &&
          (sessionId === '' || transaction.sessionId === sessionId) &&
          (amount === '' || transaction.amountMinor === parseNaira(amount)),
      )
      const latest = matching.slice(-LISTED_MAX).reverse()
      return { transactions: latest.map(toListed), ...SUCCESS }
    },
  }
}

const USED = 'reference number must be unique.'

function refusal(why: string): Shown {
  return { code: '47', message: `Invalid transaction request - ${why}` }
}

/** What is wrong with a request to open an account. */
function orderFault(body: unknown): string | undefined {
  const said = (path: string) => getPath(body, path).trim()
  if (said('transaction.reference') === '') return 'reference is mandatory.'
  if (said('customer.account.name') === '') return 'account name is mandatory.'
  if (said('customer.account.type') !== 'STATIC') return 'account type is invalid.'
  if (said('order.currency') !== 'NGN') return 'currency is invalid.'
  if (said('order.country') !== 'NGA') return 'country is invalid.'
  if (!/^(ANY|EXACT|HIGHEROREXACT|LOWEROREXACT)$/.test(said('order.amounttype'))) {
    return 'amounttype is invalid.'
  }
  return undefined
}
