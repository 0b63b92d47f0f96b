import type { Clock } from '../../core/clock.ts'
import { DAY_MS, MINUTE_MS } from '../../core/durations.ts'
import { toMajorNumber } from '../../core/money.ts'
import { DENIED } from '../bank.ts'
import {
  type BankFields,
  fieldsOf,
  parseBalance,
  parseNaira,
  plainText,
  textOf,
} from '../bank-fields.ts'
import { AccessDeniedError, BankUnreachableError } from '../http/bank-http.ts'
import { isOpenCode, NIP_INVALID_ACCOUNT, readNipCode } from '../nip-codes.ts'
import type {
  FloatReading,
  FoundTransfer,
  NameEnquiry,
  OutgoingLine,
  SendResult,
  TransferAccount,
  TransferConnector,
  TransferOrder,
  TransferState,
} from '../transfer.ts'
import { differenceFrom, leavesOpen, reasonOfText } from '../transfer-response.ts'
import { pagesOf, type SafeHavenCall, type SafeHavenResponse } from './call.ts'
import type { SafeHavenSettings, SafeHavenTransferSettings } from './settings.ts'

interface Options {
  readonly settings: Pick<SafeHavenSettings, 'accountsPath' | 'transferStatusPath'>
  readonly clock: Clock
  readonly warn?: (text: string) => void
}

interface Context extends Options {
  readonly transfers: SafeHavenTransferSettings
  readonly call: SafeHavenCall
}

/** A guess: the bank documents no time after which its status and its list are complete. */
const CONSISTENCY_MS = 15 * MINUTE_MS

/**
 * Transfers out of the operator's account at Safe Haven.
 *
 * Source: the bank's API reference (name enquiry, transfer, transfer status, get transfers).
 */
export function createSafeHavenTransfers(
  options: Options,
  transfers: SafeHavenTransferSettings,
  call: SafeHavenCall,
): TransferConnector {
  const context = { ...options, transfers, call }
  return {
    enquireName: (account, signal) => enquireName(context, account, signal),
    send: (order, signal) => send(context, order, signal),
    find: (order, signal) => find(context, order, signal),
    readFloat: (signal) => readFloat(context, signal),
    listTransfers: (period, signal) => listTransfers(context, period, signal),
    consistencyMs: CONSISTENCY_MS,
  }
}

const APPROVED = '00'

const NO_ACCOUNT_TEXT = /not found|invalid account|does not exist|unable to (locate|find)/i

/** Safe Haven needs the session id of an enquiry for each transfer. */
async function enquireName(
  { transfers, call }: Context,
  { bankCode, accountNumber }: TransferAccount,
  signal: AbortSignal,
): Promise<NameEnquiry> {
  const response = await call(
    'POST',
    transfers.transferEnquiryPath,
    { bankCode, accountNumber },
    signal,
  )
  const { cause } = response
  if (response.kind === 'refused' && response.body && NO_ACCOUNT_TEXT.test(cause)) {
    return { kind: 'not found', cause }
  }
  if (response.kind !== 'success') {
    return { kind: 'unavailable', cause, ...(response.kind === 'denied' && DENIED) }
  }
  const fields = fieldsOf(response.body['data']) ?? {}
  const code = textOf(fields, 'responseCode')
  if (code === NIP_INVALID_ACCOUNT) return { kind: 'not found', cause: `responseCode ${code}` }
  const accountName = plainText(textOf(fields, 'accountName'), 200)
  const enquiryReference = textOf(fields, 'sessionId')
  const isOurs = [accountNumber, ''].includes(textOf(fields, 'accountNumber'))
  if (![APPROVED, ''].includes(code) || !isOurs || !isId(enquiryReference) || accountName === '') {
    return { kind: 'unavailable', cause: `an enquiry with responseCode "${plainText(code, 10)}"` }
  }
  return { kind: 'found', accountName, enquiryReference }
}

async function send(
  context: Context,
  order: TransferOrder,
  signal: AbortSignal,
): Promise<SendResult> {
  const { transfers, call } = context
  const enquiry = await enquiryOf(context, order, signal)
  if (enquiry.kind === 'not found') {
    return { kind: 'failed', cause: enquiry.cause, reason: 'beneficiary_rejected' }
  }
  if (enquiry.kind === 'unavailable') return { ...enquiry, kind: 'not sent' }
  const fields = {
    nameEnquiryReference: enquiry.enquiryReference,
    debitAccountNumber: transfers.transferAccount,
    beneficiaryBankCode: order.beneficiary.bankCode,
    beneficiaryAccountNumber: order.beneficiary.accountNumber,
    amount: toMajorNumber(order.amountMinor),
    saveBeneficiary: false,
    narration: order.narration,
    paymentReference: order.reference,
  }
  const response = await call('POST', transfers.transfersPath, fields, signal)
  const { cause } = response
  if (response.kind === 'success') return stateOf(order, fieldsOf(response.body['data']) ?? {})
  if (response.kind === 'refused') return toRefusal(order, response)
  if (response.kind === 'unreached') return { kind: 'not sent', cause }
  if (response.kind === 'denied') {
    return { kind: response.sent ? 'unknown' : 'not sent', cause, ...DENIED }
  }
  return { kind: 'unknown', cause }
}

/** An order without an enquiry gets one now. */
async function enquiryOf(
  context: Context,
  { beneficiary, enquiryReference }: TransferOrder,
  signal: AbortSignal,
): Promise<NameEnquiry> {
  return enquiryReference === ''
    ? enquireName(context, beneficiary, signal)
    : { kind: 'found', accountName: beneficiary.accountName, enquiryReference }
}

/** Codes of a request that was not acceptable. Others, such as 409 and 429, do not settle anything. */
const UNACCEPTABLE = [400, 402, 404, 422]

/** A refusal is final only if Safe Haven itself states a cause that leaves nothing open. */
function toRefusal(
  order: TransferOrder,
  { code, cause, body }: Extract<SafeHavenResponse, { kind: 'refused' }>,
): TransferState {
  const data = fieldsOf(body?.['data'])
  if (data && textOf(data, 'status') !== '') return stateOf(order, data)
  const text = cause.slice(String(code).length)
  const isStated = body !== undefined && text !== '' && UNACCEPTABLE.includes(code)
  if (!isStated || leavesOpen(text)) return { kind: 'unknown', cause }
  const reason = reasonOfText(text)
  // "402 Request Failed" is documented for valid requests, without a cause.
  if (code === 402 && reason !== 'insufficient_float') return { kind: 'unknown', cause }
  return { kind: 'failed', cause, reason }
}

const FAILED = ['failed', 'declined', 'rejected', 'cancelled', 'canceled']

/** Reads a transfer out of an account, as in responses, in requeries and in the list. */
function stateOf(order: TransferOrder, fields: BankFields): TransferState {
  const direction = textOf(fields, 'type').toLowerCase()
  const difference =
    direction === '' || direction === 'outwards'
      ? differenceFrom(order, {
          reference: textOf(fields, 'paymentReference'),
          amountMinor: parseNaira(textOf(fields, 'amount')),
          accountNumber: textOf(fields, 'creditAccountNumber'),
        })
      : 'the response is about an inward transfer'
  return difference === undefined ? statusOf(fields) : { kind: 'unknown', cause: difference }
}

function statusOf(fields: BankFields): TransferState {
  const status = plainText(textOf(fields, 'status'), 40)
  const code = plainText(textOf(fields, 'responseCode'), 10)
  const message = plainText(textOf(fields, 'responseMessage'), 200)
  const cause = `status "${status}", responseCode "${code}" ${message}`.trim()
  const word = status.toLowerCase()
  // The flag of notifications is a text at times.
  const isReversed = word === 'reversed' || String(fields['isReversed']) === 'true'
  if (isReversed && !FAILED.includes(word)) return { kind: 'returned', cause }
  if (word === 'completed' && ['', APPROVED].includes(code)) {
    const sessionId = textOf(fields, 'sessionId')
    return { kind: 'paid', sessionId: isId(sessionId) ? sessionId : '' }
  }
  if (FAILED.includes(word)) {
    // Unless the debit was reversed, such a code contradicts the failure.
    if (isOpenCode(code) && !isReversed) return { kind: 'unknown', cause }
    const read = readNipCode(code, cause)
    return read.kind === 'failed' ? read : { kind: 'failed', cause, reason: reasonOfText(message) }
  }
  // A bare acceptance: the bank has queued the transfer.
  if (word === '' && fields['queued'] !== true) return { kind: 'unknown', cause }
  return { kind: word === 'completed' ? 'unknown' : 'pending', cause }
}

function isId(text: string): boolean {
  return /^[A-Za-z0-9_-]{1,64}$/.test(text)
}

/**
 * Asks by our reference, as public integrations do; the bank documents only session ids, which are
 * lost with a response. A status that is not found may mean that, so the list of transfers decides.
 */
async function find(
  context: Context,
  order: TransferOrder,
  signal: AbortSignal,
): Promise<FoundTransfer> {
  const { settings, call } = context
  const asked = { paymentReference: order.reference }
  const response = await call('POST', settings.transferStatusPath, asked, signal)
  if (response.kind === 'success') return stateOf(order, fieldsOf(response.body['data']) ?? {})
  if (response.kind === 'refused' && response.body && [400, 404].includes(response.code)) {
    return findInList(context, order, signal)
  }
  const { cause } = response
  return { kind: 'unknown', cause, ...(response.kind === 'denied' && DENIED) }
}

const PAGE_SIZE = 100

/** More pages than a search reads. */
const SEARCHED_PAGES_MAX = 20

/**
 * Searches the list from the day before the enquiry, which precedes the transfer, so that a transfer
 * that is not in it was not made. It is not filtered by direction: the bank does not document the words.
 */
async function findInList(
  context: Context,
  order: TransferOrder,
  signal: AbortSignal,
): Promise<FoundTransfer> {
  const nowMs = context.clock.now()
  const enquiredMs = order.searchFromMs ?? timeOfSession(order.enquiryReference, nowMs)
  if (enquiredMs === undefined) {
    return { kind: 'unknown', cause: 'Safe Haven does not find the reference' }
  }
  let isComplete = true
  for (let page = 0; page < SEARCHED_PAGES_MAX; page++) {
    const read = await readPage(context, { fromMs: enquiredMs, toMs: nowMs, page }, signal)
    if (read.kind !== 'page') {
      return { kind: 'unknown', cause: read.cause, ...(read.kind === 'denied' && DENIED) }
    }
    const found = read.entries.find(
      (entry) => textOf(entry, 'paymentReference') === order.reference,
    )
    if (found) return stateOf(order, found)
    isComplete &&= read.entries.every((entry) => textOf(entry, 'paymentReference') !== '')
    if (!read.hasMore) {
      return isComplete
        ? { kind: 'not found', cause: 'not in the list of transfers of Safe Haven' }
        : { kind: 'unknown', cause: 'the list of Safe Haven has transfers without a reference' }
    }
  }
  return { kind: 'unknown', cause: 'Safe Haven lists too many transfers to search' }
}

/**
 * The time in an interbank session id: `090286` `YYMMDDhhmmss` and 12 more digits. A zone is not
 * certain, which the day around each period covers.
 */
function timeOfSession(sessionId: string, nowMs: number): number | undefined {
  const digits = /^\d{6}(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)\d{12}$/.exec(sessionId)
  if (!digits) return undefined
  const [, year, month, day, hour, minute, second] = digits
  const atMs = Date.parse(`20${year}-${month}-${day}T${hour}:${minute}:${second}Z`)
  const isPlausible = atMs > nowMs - 400 * DAY_MS && atMs < nowMs + DAY_MS
  return isPlausible ? atMs : undefined
}

type Page =
  | { readonly kind: 'page'; readonly entries: readonly BankFields[]; readonly hasMore: boolean }
  | { readonly kind: 'denied' | 'unread'; readonly cause: string; readonly sent: boolean }

/** Reads a page of the account's transfers. Dates are whole days; a day more on each side is read. */
async function readPage(
  { transfers, call }: Context,
  { fromMs, toMs, page }: { readonly fromMs: number; readonly toMs: number; readonly page: number },
  signal: AbortSignal,
): Promise<Page> {
  const query = new URLSearchParams({
    accountId: transfers.transferAccountId,
    page: String(page),
    limit: String(PAGE_SIZE),
    fromDate: dateOf(fromMs - DAY_MS),
    toDate: dateOf(toMs + DAY_MS),
  })
  const response = await call('GET', `${transfers.transfersPath}?${query}`, undefined, signal)
  if (response.kind !== 'success') {
    const kind = response.kind === 'denied' ? 'denied' : 'unread'
    return { kind, cause: response.cause, sent: response.kind !== 'unreached' }
  }
  const list = response.body['data']
  const entries = Array.isArray(list) ? list.map(fieldsOf) : [undefined]
  if (!entries.every((entry) => entry !== undefined)) {
    return { kind: 'unread', cause: 'the response of Safe Haven has no list', sent: true }
  }
  const pages = pagesOf(response.body)
  const hasMore = pages === undefined ? entries.length >= PAGE_SIZE : page + 1 < pages
  return { kind: 'page', entries, hasMore: hasMore && entries.length > 0 }
}

function dateOf(epochMs: number): string {
  return new Date(epochMs).toISOString().slice(0, 'YYYY-MM-DD'.length)
}

/** More pages than any period has: bounds the listing if the bank repeats pages. */
const LISTED_PAGES_MAX = 1_000

type Listing = Parameters<NonNullable<TransferConnector['listTransfers']>>[0]

/** @throws BankUnreachableError */
async function listTransfers(
  context: Context,
  { fromMs, toMs, page }: Listing,
  signal: AbortSignal,
) {
  const number = Number(page ?? 0)
  const read = await readPage(context, { fromMs, toMs, page: number }, signal)
  if (read.kind !== 'page') {
    const text = `Safe Haven did not list transfers: ${read.cause}`
    throw read.kind === 'denied'
      ? new AccessDeniedError(text)
      : new BankUnreachableError(text, read.sent)
  }
  const lines = read.entries.flatMap((entry): OutgoingLine[] => {
    if (textOf(entry, 'type').toLowerCase() !== 'outwards') return []
    const line = readLine(entry)
    if (line === undefined) context.warn?.('skipped a malformed transfer in a list of Safe Haven')
    return line && line.atMs >= fromMs && line.atMs < toMs ? [line] : []
  })
  const hasMore = read.hasMore && number + 1 < LISTED_PAGES_MAX
  return { lines, next: hasMore ? String(number + 1) : undefined }
}

function readLine(fields: BankFields): OutgoingLine | undefined {
  const reference = plainText(textOf(fields, 'paymentReference'), 64)
  const amountMinor = parseNaira(textOf(fields, 'amount'))
  const atMs = Date.parse(textOf(fields, 'createdAt'))
  const { kind: state } = statusOf(fields)
  if (amountMinor === undefined || Number.isNaN(atMs)) return undefined
  return {
    reference,
    sessionId: plainText(textOf(fields, 'sessionId'), 64),
    amountMinor,
    accountNumber: plainText(textOf(fields, 'creditAccountNumber'), 40),
    atMs,
    // What is not clear is not finished.
    state: state === 'unknown' ? 'pending' : state,
  }
}

async function readFloat(
  { settings, transfers, call }: Context,
  signal: AbortSignal,
): Promise<FloatReading> {
  const path = `${settings.accountsPath}/${transfers.transferAccountId}`
  const response = await call('GET', path, undefined, signal)
  if (response.kind !== 'success') return { kind: 'unavailable', cause: response.cause }
  const fields = fieldsOf(response.body['data']) ?? {}
  if (![transfers.transferAccount, ''].includes(textOf(fields, 'accountNumber'))) {
    return { kind: 'unavailable', cause: 'Safe Haven returned another account' }
  }
  const availableMinor = parseBalance(textOf(fields, transfers.transferBalanceField))
  return availableMinor === undefined
    ? { kind: 'unavailable', cause: `no amount in ${transfers.transferBalanceField}` }
    : { kind: 'read', availableMinor }
}
