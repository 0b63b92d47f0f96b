import type { Clock } from '../../core/clock.ts'
import { formatAmount } from '../../core/money.ts'
import { BANK_FACTS } from '../bank.ts'
import { getPath, parseNaira } from '../bank-fields.ts'
import { parseBankJson } from '../http/bank-http.ts'
import { createFakeIds } from './fake-ids.ts'
import {
  distort,
  enquiredName,
  type RequestFault,
  TRANSFER_OPERATIONS,
  type TransferServiceFault,
} from './faults.ts'
import { createOperations, type FakeResponse, type FakeRoute } from './loopback-server.ts'
import { type BookedTransfer, createTransferBook, type TransferFault } from './transfer-book.ts'

/** The operator's credentials for the transfer service. */
export interface ProvidusTransferAccess {
  readonly userName: string
  readonly password: string
  /** The operational account. */
  readonly account: string
}

const TEST_ACCESS: ProvidusTransferAccess = {
  userName: 'test',
  password: 'test',
  account: '1700263070',
}

type Fields = Readonly<Record<string, unknown>>
type Handle = (body: unknown, fault: RequestFault) => Fields

/** The transfer service of the fake Providus. */
export function createFakeProvidusTransfers(clock: Clock, access = TEST_ACCESS) {
  const { userName, password, account } = access
  const { interbankCode, nubanCode } = BANK_FACTS.PROVIDUS
  const book = createTransferBook(clock, createFakeIds(clock, nubanCode, interbankCode))
  const operations = createOperations<(typeof TRANSFER_OPERATIONS)[number], TransferServiceFault>(
    TRANSFER_OPERATIONS,
  )
  /** Checks the credentials, then executes the operation. */
  const route = (operation: (typeof TRANSFER_OPERATIONS)[number], handle: Handle): FakeRoute =>
    operations.route(operation, (request, fault) => {
      const body = parseBankJson(request.body)
      const isKnown =
        getPath(body, 'userName') === userName && getPath(body, 'password') === password
      if (!isKnown || fault === 'denied') return toResponse(DENIED)
      return toResponse(fault === 'odd code' ? ODD : handle(body, fault))
    })
  const send =
    (isOwn: boolean): Handle =>
    (body, fault) => {
      const transactionReference = getPath(body, 'transactionReference')
      if (fault === 'rejected') return { transactionReference, ...INVALID_ACCOUNT }
      if (fault === 'insufficient') return { transactionReference, ...INSUFFICIENT }
      const sent = book.send(readOrder(body, isOwn), fault as TransferFault | undefined)
      if (sent === 'duplicate') return { transactionReference, ...DUPLICATE }
      if (sent === 'insufficient') return { transactionReference, ...INSUFFICIENT }
      return sentFields(distort(sent, fault), isOwn)
    }
  const find =
    (isOwn: boolean): Handle =>
    (body, fault) => {
      const transfer = book.find(getPath(body, 'transactionReference'))
      if (!transfer || fault === 'not found') return MISSING
      return foundFields(distort(transfer, fault), isOwn, account)
    }
  const routes: Readonly<Record<string, FakeRoute>> = {
    'POST /GetNIPAccount': route('enquire', (body, fault) => {
      const accountNumber = getPath(body, 'accountNumber')
      const accountName = enquiredName(book, accountNumber, fault)
      if (accountName === undefined) return INVALID_ACCOUNT
      const bankCode = getPath(body, 'beneficiaryBank')
      return { bankCode, accountName, transactionReference: '', bvn: '', accountNumber, ...SUCCESS }
    }),
    'POST /GetProvidusAccount': route('account', (body, fault) => {
      const accountNumber = getPath(body, 'accountNumber')
      const isOperator = accountNumber === account
      const accountName = isOperator ? 'OPERATOR LTD' : enquiredName(book, accountNumber, fault)
      if (accountName === undefined) return response('01', 'Account does not exist.')
      const availableBalance = `${formatAmount(isOperator ? book.floatMinor : 0n)}1`
      return { accountStatus: 'ACTIVE', accountName, accountNumber, availableBalance, ...SUCCESS }
    }),
    'POST /NIPFundTransfer': route('send', send(false)),
    'POST /ProvidusFundTransfer': route('send', send(true)),
    'POST /GetNIPTransactionStatus': route('find', find(false)),
    'POST /GetProvidusTransactionStatus': route('find', find(true)),
  }
  return { book, routes, faults: operations.faults, requests: operations.requests }
}

const response = (responseCode: string, responseMessage: string) => ({
  responseMessage,
  responseCode,
})

const SUCCESS = response('00', ' Approved or completed successfully')
const DENIED = response('05', 'Authentication failed')
const DUPLICATE = response('7709', 'TRANSACTION REFERENCE EXISTS')
const INSUFFICIENT = response('51', 'No sufficient funds')
const INVALID_ACCOUNT = response('07', 'Invalid Account')
const MISSING = response('01', 'Transaction does not exist.')
const ODD = response('7799', 'Operation could not be completed')

const STATES: Readonly<Record<BookedTransfer['state'], Fields>> = {
  paid: SUCCESS,
  pending: response('09', 'Request processing in progress'),
  failed: response('57', 'Transaction not permitted to sender'),
  returned: response('21', 'Transaction reversed'),
}

function toResponse(fields: Fields): FakeResponse {
  return { status: 200, body: JSON.stringify(fields) }
}

function readOrder(body: unknown, isOwn: boolean) {
  return {
    reference: getPath(body, 'transactionReference'),
    amountMinor: parseNaira(getPath(body, 'transactionAmount')) ?? 0n,
    bankCode: isOwn ? BANK_FACTS.PROVIDUS.interbankCode : getPath(body, 'beneficiaryBank'),
    accountNumber: getPath(body, isOwn ? 'creditAccount' : 'beneficiaryAccountNumber'),
    narration: getPath(body, 'narration'),
  }
}

function sentFields(transfer: BookedTransfer, isOwn: boolean): Fields {
  const { reference, sessionId, amountMinor, state } = transfer
  const details = isOwn ? { amount: naira(amountMinor), currency: 'NGN' } : { sessionId }
  return { transactionReference: reference, ...details, ...STATES[state] }
}

function foundFields(transfer: BookedTransfer, isOwn: boolean, debitAccount: string): Fields {
  const { reference, sessionId, amountMinor, bankCode, accountNumber, state } = transfer
  const details = isOwn
    ? { creditAccount: accountNumber, debitAccount, transactionReference: reference }
    : {
        recipientBankCode: bankCode,
        recipientAccountNumber: accountNumber,
        transactionReference: `${reference}| ${sessionId}`,
      }
  return { ...details, amount: naira(amountMinor), currency: 'NGN', ...STATES[state] }
}

/** `100.0`, `2000.45` */
function naira(amountMinor: bigint): string {
  return formatAmount(amountMinor).replace(/0$/, '')
}
