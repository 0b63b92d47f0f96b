import type { Clock } from '../../core/clock.ts'
import { formatAmount } from '../../core/money.ts'
import { BANK_FACTS } from '../bank.ts'
import { getPath, parseNaira } from '../bank-fields.ts'
import { parseBankJson } from '../http/bank-http.ts'
import { createFakeIds, numberToken } from './fake-ids.ts'
import {
  distort,
  enquiredName,
  type RequestFault,
  TRANSFER_OPERATIONS,
  type TransferServiceFault,
} from './faults.ts'
import { createOperations, type FakeResponse, type FakeRoute } from './loopback-server.ts'
import { type BookedTransfer, createTransferBook, type TransferFault } from './transfer-book.ts'

/** The operator's credentials for "Wallet as a Service". */
export interface NinePsbTransferAccess {
  readonly username: string
  readonly password: string
  readonly clientId: string
  readonly clientSecret: string
  /** The operational wallet. */
  readonly account: string
}

const TEST_ACCESS: NinePsbTransferAccess = {
  username: 'test',
  password: 'test',
  clientId: 'waas',
  clientSecret: 'test',
  account: '1100035911',
}

const OPERATIONS = [...TRANSFER_OPERATIONS, 'authenticate'] as const

type Operation = (typeof OPERATIONS)[number]
type Fields = Readonly<Record<string, unknown>>
type Handle = (body: unknown, fault: RequestFault) => Fields

/** The prefix of the routes. It is needed because the bank's two APIs have a path in common. */
export const WAAS_PATH = '/waas/api/v1'

/** "Wallet as a Service" of the fake 9PSB. */
export function createFakeNinePsbTransfers(clock: Clock, access = TEST_ACCESS) {
  const { interbankCode, nubanCode } = BANK_FACTS['9PSB']
  const book = createTransferBook(clock, createFakeIds(clock, nubanCode, interbankCode))
  const operations = createOperations<Operation, TransferServiceFault>(OPERATIONS)
  const tokens = new Set<string>()
  /** Checks the token, then executes the operation. */
  const route = (operation: Operation, handle: Handle): FakeRoute =>
    operations.route(operation, ({ headers, body }, fault) => {
      const token = headers['authorization']?.replace(/^Bearer /, '') ?? ''
      const isKnown = operation === 'authenticate' || tokens.has(token)
      if (!isKnown || fault === 'denied') return toResponse(DENIED, 401)
      return toResponse(fault === 'odd code' ? ODD : handle(parseBankJson(body), fault))
    })
  const authenticate: Handle = (body) => {
    const isKnown = (['username', 'password', 'clientId', 'clientSecret'] as const).every(
      (name) => getPath(body, name) === access[name],
    )
    if (!isKnown) return failed('', 'Invalid user credentials')
    const accessToken = `fake-waas-token-${tokens.size}`
    tokens.add(accessToken)
    return { message: 'successful', accessToken, expiresIn: '7200', tokenType: null }
  }
  const send: Handle = (body, fault) => {
    if (fault === 'insufficient') return INSUFFICIENT
    if (fault === 'rejected') return failed('07', 'Invalid account')
    const sent = book.send(readOrder(body), fault as TransferFault | undefined)
    if (sent === 'duplicate') return failed('', 'Duplicate transaction reference')
    return sent === 'insufficient' ? INSUFFICIENT : sentFields(distort(sent, fault))
  }
  const find: Handle = (body, fault) => {
    const transfer = book.find(getPath(body, 'transactionId'))
    if (!transfer || fault === 'not found') return failed('', 'Transaction not found')
    return foundFields(distort(transfer, fault))
  }
  const enquire: Handle = (body, fault) => {
    const account = (name: string) => getPath(body, `customer.account.${name}`)
    const [number, bank] = [account('number'), account('bank')]
    const name = enquiredName(book, number, fault)
    if (name === undefined) return failed('', 'Invalid account number supplied')
    return { code: '00', message: 'Success', customer: { account: { number, bank, name } } }
  }
  const readWallet: Handle = (body) => {
    const nuban = getPath(body, 'accountNo')
    if (nuban !== access.account) return failed('', 'Invalid account number supplied')
    const availableBalance = numberToken(formatAmount(book.floatMinor))
    return { ...SUCCESS, data: { name: 'OPERATOR LTD', nuban, availableBalance } }
  }
  const routes: Readonly<Record<string, FakeRoute>> = {
    [`POST ${WAAS_PATH}/authenticate`]: route('authenticate', authenticate),
    [`POST ${WAAS_PATH}/other_banks_enquiry`]: route('enquire', enquire),
    [`POST ${WAAS_PATH}/wallet_other_banks`]: route('send', send),
    [`POST ${WAAS_PATH}/wallet_requery`]: route('find', find),
    [`POST ${WAAS_PATH}/wallet_enquiry`]: route('account', readWallet),
  }
  return {
    book,
    routes,
    faults: operations.faults,
    requests: operations.requests,
    expireTokens: () => tokens.clear(),
  }
}

const failed = (responseCode: string, message: string): Fields => ({
  status: 'FAILED',
  ...(responseCode !== '' && { responseCode }),
  message,
})

const SUCCESS = { status: 'SUCCESS', responseCode: '00', message: 'Success' }
const DENIED = failed('', 'Unauthorized')
const INSUFFICIENT = failed('51', 'Insufficient balance')
const ODD = failed('X9', 'An error occurred')

/** The bank's words and codes for the states of a transfer. */
const STATES = {
  paid: ['SUCCESS', '00', 'Approved by Financial Institution'],
  pending: ['PENDING', '09', 'Request processing in progress'],
  failed: ['FAILED', '57', 'Transaction not permitted to sender'],
  returned: ['FAILED', '21', 'Transaction reversed'],
} as const

function toResponse(fields: Fields, status = 200): FakeResponse {
  const isRefused = status === 200 && fields['status'] === 'FAILED'
  return { status: isRefused ? 400 : status, body: JSON.stringify(fields) }
}

function readOrder(body: unknown) {
  return {
    reference: getPath(body, 'transaction.reference'),
    amountMinor: parseNaira(getPath(body, 'order.amount')) ?? 0n,
    bankCode: getPath(body, 'customer.account.bank'),
    accountNumber: getPath(body, 'customer.account.number'),
    narration: getPath(body, 'narration'),
  }
}

function sentFields({ reference, sessionId, amountMinor, state }: BookedTransfer): Fields {
  const [status, responseCode, message] = STATES[state]
  const data = { reference, sessionId, amount: formatAmount(amountMinor) }
  return { status, responseCode, message, data }
}

/** The outer status is that of the query. */
function foundFields({ reference, state }: BookedTransfer): Fields {
  const [status, responseCode, responseMessage] = STATES[state]
  const isSuccessful = state === 'paid'
  return { ...SUCCESS, data: { isSuccessful, responseMessage, responseCode, reference, status } }
}
