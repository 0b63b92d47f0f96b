import { createHash } from 'node:crypto'
import { type Clock, systemClock } from '../../core/clock.ts'
import { formatAmount } from '../../core/money.ts'
import { BANK_FACTS } from '../bank.ts'
import { getPath } from '../bank-fields.ts'
import { createFakeIds, numberToken } from '../fake/fake-ids.ts'
import type { ServerFault } from '../fake/faults.ts'
import {
  createOperations,
  type FakeBankOptions,
  type FakeRequest,
  type FakeResponse,
  type FakeRoute,
  startLoopbackServer,
} from '../fake/loopback-server.ts'
import {
  bankControls,
  createNotifier,
  type NotifyResult,
  payByHand,
  readAmount,
} from '../fake/notifier.ts'
import {
  createFakeProvidusTransfers,
  type ProvidusTransferAccess,
} from '../fake/providus-transfers.ts'
import { parseBankJson } from '../http/bank-http.ts'

const OPERATIONS = ['create', 'settlement', 'session'] as const

type ProvidusOperation = (typeof OPERATIONS)[number]

/**
 * Faults of any server, error codes inside HTTP 200 for requests that were executed or not, and a payment
 * that is not known yet.
 */
export type ProvidusFault = ServerFault | '03' | '03 after' | '05' | '11' | 'not found'

export interface FakeProvidusOptions extends FakeBankOptions {
  readonly credentials: { readonly clientId: string; readonly clientSecret: string }
  /** The operational account and the credentials of the transfer service. */
  readonly transfers?: ProvidusTransferAccess
}

export type FakeProvidus = Awaited<ReturnType<typeof startFakeProvidus>>

const RETRY_DELAYS_MS = [2_000, 5_000, 15_000, 60_000]

/**
 * Starts a fake bank that behaves as the bank's document says. To pay into one of its accounts,
 * send `POST /fake/pay {"account_number","amount"}`.
 */
export async function startFakeProvidus(options: FakeProvidusOptions) {
  const { port, credentials, clock = systemClock } = options
  const { clientId, clientSecret } = credentials
  const signature = createHash('sha512').update(`${clientId}:${clientSecret}`).digest('hex')
  const books = createProvidusBooks(clock)
  const notifier = createProvidusNotifier(options, signature)
  const notify = async (transaction: ProvidusTransaction) =>
    noteResult(transaction, await notifier.notify(notificationBody(transaction)))
  const transfers = createFakeProvidusTransfers(clock, options.transfers)
  const operations = createOperations<ProvidusOperation, ProvidusFault>(OPERATIONS)
  /** Checks the signature, then executes the operation. */
  const route = (
    operation: ProvidusOperation,
    handle: (request: FakeRequest) => FakeResponse,
  ): FakeRoute =>
    operations.route(operation, (request, fault) => {
      const { headers } = request
      const isSigned = headers['x-auth-signature']?.toLowerCase() === signature
      if (!isSigned || headers['client-id'] !== clientId) return rejection('05')
      if (fault === 'not found') return found(undefined)
      if (fault === '03 after') handle(request)
      return fault ? rejection(fault.slice(0, 2)) : handle(request)
    })
  const server = await startLoopbackServer({
    port,
    observe: options.observe,
    routes: {
      'POST /PiPCreateReservedAccountNumber': route('create', ({ body }) =>
        create(body, books.open),
      ),
      'GET /PiPverifyTransaction_settlementid': route('settlement', ({ query }) =>
        found(books.bySettlement(query.get('settlement_id') ?? '')),
      ),
      'GET /PiPverifyTransaction_sessionid': route('session', ({ query }) =>
        found(books.bySession(query.get('session_id') ?? '')),
      ),
      ...transfers.routes,
      'POST /fake/pay': { respond: (request) => payByHand(request, books.receive, notify) },
    },
  })
  return {
    ...bankControls({ server, notifier, operations, books, notify }),
    transactions: books.transactions,
    /** The book of transfers, with its own faults and counts. */
    transfers,
    /** Opens an account without an API call. */
    openAccount: books.open,
  }
}

function createProvidusNotifier(options: FakeProvidusOptions, signature: string) {
  return createNotifier({
    url: options.notify,
    observe: options.observe,
    headers: {
      'content-type': 'application/json',
      'client-id': options.credentials.clientId,
      'x-auth-signature': signature.toUpperCase(),
    },
    retryDelaysMs: options.retryDelaysMs ?? RETRY_DELAYS_MS,
    classify: ({ text }) => VERDICTS.get(getPath(parseBankJson(text), 'responseCode')) ?? 'retry',
  })
}

function noteResult(transaction: ProvidusTransaction, result: NotifyResult): NotifyResult {
  const code = getPath(parseBankJson(result.responses.at(-1)?.text ?? ''), 'responseCode')
  if (result.acknowledged) transaction.notificationStatus = 'acknowledged'
  else if (code === '02') transaction.notificationStatus = 'rejected'
  return result
}

function create(body: string, open: (accountName: string) => ProvidusAccount): FakeResponse {
  const name = getPath(parseBankJson(body), 'account_name').trim()
  return name === '' ? rejection('11') : created(open(`MERCHANT(${name})`))
}

/** How to treat response codes to a notification; the bank retries after any other. */
const VERDICTS: ReadonlyMap<string, 'acknowledged' | 'final'> = new Map([
  ['00', 'acknowledged'],
  ['01', 'acknowledged'],
  ['02', 'final'],
])

const MESSAGES: Readonly<Record<string, string>> = {
  '03': 'Exception; Failed',
  '05': 'Authentication failed',
  '11': 'Error Completing Operation',
}

function rejection(code: string): FakeResponse {
  const body = { requestSuccessful: false, responseMessage: MESSAGES[code], responseCode: code }
  return { status: 200, body: JSON.stringify(body) }
}

/** The response to a requery; without a transaction, it is an empty payment with a remark. */
function found(transaction: ProvidusTransaction | undefined): FakeResponse {
  const body = transaction
    ? requeryBody(transaction)
    : toRequeryBody({ tranRemarks: 'Transaction not found!!!' })
  return { status: 200, body }
}

function created({ accountNumber, accountName }: ProvidusAccount): FakeResponse {
  const body = {
    account_number: accountNumber,
    account_name: accountName,
    bvn: '',
    requestSuccessful: true,
    responseMessage: 'Reserved Account Generated Successfully',
    responseCode: '00',
  }
  return { status: 200, body: JSON.stringify(body) }
}

interface ProvidusAccount {
  readonly accountNumber: string
  readonly accountName: string
}

/** The fields that a payment may set; the rest is generated. */
type ProvidusPayment = Partial<
  Pick<
    ProvidusTransaction,
    | 'sessionId'
    | 'settlementId'
    | 'remarks'
    | 'sourceAccountNumber'
    | 'sourceAccountName'
    | 'tranDateTime'
  >
> & {
  /** When the payment is received, in epoch milliseconds; default: now. */
  readonly atMs?: number
}

const SENDER_BANK = '000004'

/** The accounts and payments of the fake bank. */
function createProvidusBooks(clock: Clock) {
  const ids = createFakeIds(clock, BANK_FACTS.PROVIDUS.nubanCode, SENDER_BANK)
  const accounts = new Map<string, ProvidusAccount>()
  const transactions: ProvidusTransaction[] = []
  const settlements = new Map<string, ProvidusTransaction>()
  const sessions = new Map<string, ProvidusTransaction>()
  return {
    accounts,
    transactions,
    /** Every call opens an account: a retry looks like a new request. */
    open(accountName: string): ProvidusAccount {
      const account = { accountNumber: ids.accountNumber(), accountName }
      accounts.set(account.accountNumber, account)
      return account
    },
    /** @throws RangeError for an unknown account or an invalid amount */
    receive(
      accountNumber: string,
      amount: string,
      payment: ProvidusPayment = {},
    ): ProvidusTransaction {
      const { atMs = clock.now(), ...details } = payment
      if (!accounts.has(accountNumber)) throw new RangeError(`no account ${accountNumber}`)
      const amountMinor = readAmount(amount)
      const stamp = ids.localTime(atMs).replaceAll(/\D/g, '')
      const transaction: ProvidusTransaction = {
        sessionId: ids.sessionId(atMs),
        settlementId: `${stamp}${String(transactions.length).padStart(10, '0')}`,
        accountNumber,
        amountMinor,
        feeMinor: 0n,
        remarks: 'FROM UBA/CASAFINA CREDIT-EASY LOAN',
        sourceAccountNumber: '2093566866',
        sourceAccountName: 'CASAFINA CREDIT-EASY LOAN',
        sourceBankCode: SENDER_BANK,
        sourceBankName: 'UNITED BANK FOR AFRICA',
        tranDateTime: ids.localTime(atMs).replace('T', ' '),
        notificationStatus: 'pending',
        ...details,
      }
      transactions.push(transaction)
      settlements.set(transaction.settlementId, transaction)
      if (transaction.sessionId !== '') sessions.set(transaction.sessionId, transaction)
      return transaction
    },
    bySettlement: (settlementId: string) => settlements.get(settlementId),
    bySession: (sessionId: string) => sessions.get(sessionId),
  }
}

/** After code 02 the bank does not retry, and records the payment as failed. */
type ProvidusNotificationStatus = 'pending' | 'acknowledged' | 'rejected'

/** A payment that the fake Providus received. */
export interface ProvidusTransaction {
  readonly sessionId: string
  readonly settlementId: string
  readonly accountNumber: string
  readonly amountMinor: bigint
  /** The bank's fee, deducted from the settled amount. */
  readonly feeMinor: bigint
  readonly remarks: string
  /** Empty if unknown; the bank then sends " " or "null". */
  readonly sourceAccountNumber: string
  readonly sourceAccountName: string
  readonly sourceBankCode: string
  readonly sourceBankName: string
  /** Lagos time without a zone: `2021-03-01 18:06:20`. */
  readonly tranDateTime: string
  notificationStatus: ProvidusNotificationStatus
}

/** Amounts are strings without trailing zeros. */
export function notificationBody(transaction: ProvidusTransaction): string {
  const { amountMinor, feeMinor, sourceAccountNumber, sourceAccountName } = transaction
  const naira = (minor: bigint) => formatAmount(minor).replace(/\.?0+$/, '')
  return JSON.stringify({
    sessionId: transaction.sessionId,
    accountNumber: transaction.accountNumber,
    tranRemarks: transaction.remarks,
    transactionAmount: naira(amountMinor),
    settledAmount: naira(amountMinor - feeMinor),
    feeAmount: naira(feeMinor),
    vatAmount: '0',
    currency: 'NGN',
    initiationTranRef: '',
    settlementId: transaction.settlementId,
    sourceAccountNumber: sourceAccountNumber || ' ',
    sourceAccountName: sourceAccountName || 'null',
    sourceBankName: transaction.sourceBankName,
    channelId: '1',
    tranDateTime: transaction.tranDateTime,
  })
}

/** The payment in the format of requeries: amounts are numbers, and there are more fields than in notifications. */
function requeryBody(transaction: ProvidusTransaction): string {
  const { amountMinor, feeMinor, sourceAccountNumber, sourceAccountName } = transaction
  return toRequeryBody({
    sessionId: transaction.sessionId,
    accountNumber: transaction.accountNumber,
    tranRemarks: transaction.remarks,
    transactionAmount: toNumber(amountMinor),
    settledAmount: toNumber(amountMinor - feeMinor),
    feeAmount: toNumber(feeMinor),
    currency: 'NGN',
    settlementId: transaction.settlementId,
    sourceAccountNumber: sourceAccountNumber || ' ',
    sourceAccountName: sourceAccountName || 'null',
    sourceBankCode: transaction.sourceBankCode,
    sourceBankName: transaction.sourceBankName,
    channelId: '1',
    tranDateTime: transaction.tranDateTime,
    notification_acknowledgement: transaction.notificationStatus === 'pending' ? 0 : 1,
  })
}

function toRequeryBody(fields: Readonly<Record<string, unknown>>): string {
  const zero = toNumber(0n)
  return JSON.stringify({
    sessionId: '',
    initiationTranRef: '',
    accountNumber: '',
    tranRemarks: '',
    transactionAmount: zero,
    settledAmount: zero,
    feeAmount: zero,
    vatAmount: zero,
    currency: '',
    settlementId: '',
    sourceAccountNumber: '',
    sourceAccountName: '',
    sourceBankCode: '',
    sourceBankName: '',
    channelId: '',
    tranDateTime: '',
    settlementDateTime: '',
    stamp_duty_flg: 0,
    post_flg: 0,
    notification_acknowledgement: 0,
    ...fields,
  })
}

/** `1000.0`, `76.75`. */
function toNumber(minor: bigint): unknown {
  return numberToken(formatAmount(minor).replace(/0$/, ''))
}
