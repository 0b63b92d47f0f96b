import { createHash } from 'node:crypto'
import { type Clock, systemClock } from '../../core/clock.ts'
import { formatAmount } from '../../core/money.ts'
import { BANK_FACTS } from '../bank.ts'
import { getPath, parseNaira } from '../bank-fields.ts'
import {
  createFakeNinePsbTransfers,
  type NinePsbTransferAccess,
  WAAS_PATH,
} from '../fake/9psb-transfers.ts'
import { createFakeIds, numberToken } from '../fake/fake-ids.ts'
import type { ServerFault } from '../fake/faults.ts'
import {
  createOperations,
  type FakeBankOptions,
  type FakeResponse,
  type FakeRoute,
  startLoopbackServer,
} from '../fake/loopback-server.ts'
import { bankControls, createNotifier, payByHand, readAmount } from '../fake/notifier.ts'
import { parseBankJson } from '../http/bank-http.ts'

const OPERATIONS = ['authenticate', 'create', 'confirm', 'deactivate'] as const

type NinePsbOperation = (typeof OPERATIONS)[number]

/** Faults of any server, code 99, refused credentials, and a payment that is not known yet. */
export type NinePsbFault = ServerFault | '99' | '99 after' | 'S1' | 'not found'

export interface FakeNinePsbOptions extends FakeBankOptions {
  readonly credentials: {
    readonly publicKey: string
    readonly privateKey: string
    readonly notificationUser: string
    readonly notificationPassword: string
  }
  /** The operational wallet, and the credentials of "Wallet as a Service". */
  readonly transfers?: NinePsbTransferAccess
  /** The lifetime of tokens. */
  readonly tokenSeconds?: number
  /** HTTP status of responses with an error code; default 200. */
  readonly errorStatus?: number
}

export type FakeNinePsb = Awaited<ReturnType<typeof startFakeNinePsb>>

const RETRY_DELAYS_MS = [2_000, 5_000, 15_000, 30_000, 60_000]

/**
 * Starts a fake bank that behaves as the bank's document says. To pay into one of its accounts,
 * send `POST /fake/pay {"account_number","amount"}`.
 */
export async function startFakeNinePsb(options: FakeNinePsbOptions) {
  const { port, credentials, clock = systemClock } = options
  const books = createNinePsbBooks(clock)
  const notifier = createNinePsbNotifier(options)
  const notify = (transaction: NinePsbTransaction) =>
    notifier.notify(notificationBody(transaction, credentials.notificationPassword))
  const tokens = createTokens(options, clock)
  const transfers = createFakeNinePsbTransfers(clock, options.transfers)
  const operations = createOperations<NinePsbOperation, NinePsbFault>(OPERATIONS)
  /** Checks the token, then executes the operation. */
  const route = (
    operation: NinePsbOperation,
    handle: (body: unknown, text: string, fault: string | undefined) => NinePsbBody,
  ): FakeRoute =>
    operations.route(operation, ({ headers, body: text }, fault) => {
      const isAuthenticated =
        operation === 'authenticate' || tokens.isValid(headers['authorization'])
      if (!isAuthenticated || fault === 'S1')
        return toResponse(options, { code: 'S1', message: 'Invalid Credential' })
      if (fault === '99') return toResponse(options, SYSTEM_ERROR)
      const result = handle(parseBankJson(text), text, fault)
      return toResponse(options, fault === '99 after' ? SYSTEM_ERROR : result)
    })
  const server = await startLoopbackServer({
    port,
    observe: options.observe,
    routes: {
      'POST /authenticate': route('authenticate', tokens.issue),
      'POST /create': route('create', books.create),
      'POST /confirmpayment': route('confirm', (body, _text, fault) =>
        fault === 'not found' ? { ...SUCCESS, transactions: [] } : books.confirm(body),
      ),
      'POST /deactivate': route('deactivate', books.deactivate),
      ...transfers.routes,
      'POST /fake/pay': { respond: (request) => payByHand(request, books.receive, notify) },
    },
  })
  return {
    ...bankControls({ server, notifier, operations, books, notify }),
    transactions: books.transactions,
    /** The book of transfers, with its own faults and counts. */
    transfers,
    /** The base URL of "Wallet as a Service". */
    transfersUrl: server.url + WAAS_PATH,
    /** Opens an account without an API call. */
    openAccount: (name: string, reference = `fake-${books.accounts.size}`) =>
      books.open(name, reference),
    expireTokens: tokens.expire,
  }
}

function createNinePsbNotifier(options: FakeNinePsbOptions) {
  const { notificationUser: user, notificationPassword: password } = options.credentials
  return createNotifier({
    url: options.notify,
    observe: options.observe,
    headers: {
      'content-type': 'application/json',
      authorization: `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`,
    },
    retryDelaysMs: options.retryDelaysMs ?? RETRY_DELAYS_MS,
    classify: ({ text }) =>
      getPath(parseBankJson(text), 'code') === '00' ? 'acknowledged' : 'retry',
  })
}

const SYSTEM_ERROR = { code: '99', message: 'Request processing error' }

function toResponse({ errorStatus = 200 }: FakeNinePsbOptions, result: NinePsbBody): FakeResponse {
  return { status: result['code'] === '00' ? 200 : errorStatus, body: JSON.stringify(result) }
}

function createTokens({ credentials, tokenSeconds = 7_200 }: FakeNinePsbOptions, clock: Clock) {
  const expiresAtMs = new Map<string, number>()
  let issued = 0
  return {
    issue(body: unknown): NinePsbBody {
      const isKnown =
        getPath(body, 'publickey') === credentials.publicKey &&
        getPath(body, 'privatekey') === credentials.privateKey
      if (!isKnown) {
        return { access_token: null, expires_in: 0, code: 'S1', message: 'Invalid Credential' }
      }
      issued += 1
      const token = `fake-token-${issued}`
      expiresAtMs.set(token, clock.now() + tokenSeconds * 1_000)
      return { access_token: token, expires_in: tokenSeconds, ...SUCCESS }
    },
    isValid: (header: string | undefined) =>
      (expiresAtMs.get(header?.replace(/^Bearer /, '') ?? '') ?? 0) > clock.now(),
    expire: () => expiresAtMs.clear(),
  }
}

interface NinePsbAccount {
  readonly accountNumber: string
  readonly reference: string
  readonly name: string
  active: boolean
}

/** The fields that a payment may set; the rest is generated. */
type NinePsbPayment = Partial<
  Pick<NinePsbTransaction, 'sessionId' | 'senderName' | 'senderAccountNumber' | 'description'>
> & {
  /** When the payment is received, in epoch milliseconds; default: now. */
  readonly atMs?: number
}

/** The JSON of a response. */
type NinePsbBody = Readonly<Record<string, unknown>>

const SUCCESS = { code: '00', message: 'Success' }

const LISTED_MAX = 10

const SENDER_BANK = '000013'

/** The accounts and payments of the fake bank, and its API methods. */
function createNinePsbBooks(clock: Clock) {
  const ids = createFakeIds(clock, BANK_FACTS['9PSB'].nubanCode, SENDER_BANK)
  const accounts = new Map<string, NinePsbAccount>()
  const references = new Set<string>()
  const transactions: NinePsbTransaction[] = []
  /** Payments by account, oldest first. */
  const received = new Map<string, NinePsbTransaction[]>()
  const open = (name: string, reference: string): NinePsbAccount => {
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
    /** @throws RangeError if no active account has the number, or for an invalid amount */
    receive(
      accountNumber: string,
      amount: string,
      payment: NinePsbPayment = {},
    ): NinePsbTransaction {
      const account = accounts.get(accountNumber)
      if (!account?.active) throw new RangeError(`no active account ${accountNumber}`)
      const amountMinor = readAmount(amount)
      const { atMs = clock.now(), ...details } = payment
      const [sessionId, date] = [ids.sessionId(atMs), ids.localTime(atMs)]
      const transaction = { sessionId, date, amountMinor, ...transferTo(account), ...details }
      transactions.push(transaction)
      received.get(accountNumber)?.push(transaction)
      return transaction
    },
    /** @param text the request's body; parts of it are echoed */
    create(body: unknown, text: string): NinePsbBody {
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
    deactivate(body: unknown, text: string): NinePsbBody {
      const account = accounts.get(getPath(body, 'customer.account.number'))
      const request = JSON.parse(text) as object
      if (!account) return { ...rejection('account number to deactivate not found.'), ...request }
      account.active = false
      return { ...SUCCESS, ...request }
    },
    confirm: (body: unknown) => confirm(body, received.get(getPath(body, 'accountnumber')) ?? []),
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

/** @returns the error in a request to open an account; undefined if it is valid */
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

/** A payment that the fake 9PSB received. */
export interface NinePsbTransaction {
  /** The reference with which its account was created. */
  readonly reference: string
  readonly sessionId: string
  /** Lagos time without a zone: `2023-06-07T09:35:29`. */
  readonly date: string
  readonly accountNumber: string
  readonly accountName: string
  readonly amountMinor: bigint
  readonly senderName: string
  readonly senderAccountNumber: string
  readonly senderBankCode: string
  readonly senderBankName: string
  readonly description: string
}

/** @param password the password of the notifications' Basic authentication */
export function notificationBody(transaction: NinePsbTransaction, password: string): string {
  const { senderAccountNumber, senderBankCode, accountNumber, amountMinor } = transaction
  const amount = formatAmount(amountMinor)
  const hash = createHash('sha512')
    .update([password, senderAccountNumber, senderBankCode, accountNumber, amount].join(''))
    .digest('hex')
    .toUpperCase()
  return JSON.stringify({ ...toJson(transaction, amount.replace(/0$/, '')), hash })
}

/** The payment in the format of `confirmpayment`. */
function toListed(transaction: NinePsbTransaction): unknown {
  return toJson(transaction, formatAmount(transaction.amountMinor).replace(/\.?0+$/, ''))
}

function toJson(transaction: NinePsbTransaction, amount: string): Record<string, unknown> {
  return {
    transaction: {
      reference: transaction.reference,
      sessionid: transaction.sessionId,
      date: transaction.date,
    },
    customer: {
      account: {
        name: transaction.accountName,
        number: transaction.accountNumber,
        bank: '9PSB',
        senderbankcode: transaction.senderBankCode,
        senderbankname: transaction.senderBankName,
        senderaccountnumber: transaction.senderAccountNumber,
        sendername: transaction.senderName,
      },
    },
    order: {
      amount: numberToken(amount),
      currency: 'NGN',
      description: transaction.description,
    },
    message: 'Success',
    code: '00',
  }
}
