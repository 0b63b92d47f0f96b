import { DAY_MS, MINUTE_MS } from '../../core/durations.ts'
import { toMajorNumber } from '../../core/money.ts'
import { failure } from '../bank.ts'
import {
  type BankFields,
  fieldsOf,
  parseBalance,
  parseNaira,
  plainText,
  textOf,
} from '../bank-fields.ts'
import {
  AccessDeniedError,
  BankUnreachableError,
  type ConnectorOptions,
} from '../http/bank-http.ts'
import type {
  FloatReading,
  NameEnquiry,
  OutgoingLine,
  SendResult,
  TransferConnector,
  TransferOrder,
  TransferState,
} from '../transfer.ts'
import {
  differenceFrom,
  isOpenCode,
  leavesOpen,
  NIP_INVALID_ACCOUNT,
  readNipCode,
  reasonOfText,
} from '../transfer-response.ts'
import {
  FAILED_STATUSES,
  isId,
  pagesOf,
  type SafeHavenCall,
  type SafeHavenResponse,
} from './call.ts'
import { createSearch, type Page, type Part } from './search-transfers.ts'
import type { SafeHavenSettings, SafeHavenTransferSettings } from './settings.ts'

/** A guess: the bank does not document after what time its status query and list are complete. */
const CONSISTENCY_MS = 15 * MINUTE_MS

/**
 * Transfers out of the operator's account at Safe Haven.
 *
 * Source: the bank's API reference (name enquiry, transfer, transfer status, get transfers).
 */
export function createSafeHavenTransfers(
  { settings, clock, warn }: ConnectorOptions<SafeHavenSettings>,
  transfers: SafeHavenTransferSettings,
  call: SafeHavenCall,
): TransferConnector {
  const readPage = async (part: Part, signal: AbortSignal) => {
    const path = `${transfers.transfersPath}?${pageQuery(part, transfers)}`
    return toPage(part, await call('GET', path, undefined, signal))
  }
  const search = createSearch({ clock, readPage, stateOf })
  return {
    async enquireName({ bankCode, accountNumber }, signal) {
      const asked = { bankCode, accountNumber }
      return toName(accountNumber, await call('POST', transfers.transferEnquiryPath, asked, signal))
    },
    async send(order, signal) {
      // The sandbox stated the name before the bank was connected. It is asked for again once the resolution has expired.
      if (order.enquiryReference === '')
        return { kind: 'not sent', cause: 'without a name enquiry' }
      const fields = transferFields(order, transfers)
      return toSent(order, await call('POST', transfers.transfersPath, fields, signal))
    },
    /**
     * Queries the status by our reference, as public integrations do. The bank documents only the query by session
     * id, and we do not know the session id if a response was lost. So "not found" may only mean that the bank does not
     * accept the reference; the list of transfers decides.
     */
    async find(order, signal) {
      const asked = { paymentReference: order.reference }
      const response = await call('POST', settings.transferStatusPath, asked, signal)
      if (response.kind === 'success') return stateOf(order, fieldsOf(response.body['data']) ?? {})
      if (response.kind === 'refused' && response.body && [400, 404].includes(response.code)) {
        return search(order, signal)
      }
      return failure('unknown', response)
    },
    async readFloat(signal) {
      const path = `${settings.accountsPath}/${transfers.transferAccountId}`
      return toFloat(transfers, await call('GET', path, undefined, signal))
    },
    async listTransfers({ fromMs, toMs, page }, signal) {
      const part = { fromMs, toMs, page: Number(page ?? 0) }
      return toListing(part, await readPage(part, signal), warn)
    },
    consistencyMs: CONSISTENCY_MS,
  }
}

const APPROVED = '00'

const NO_ACCOUNT_TEXT = /not found|invalid account|does not exist|unable to (locate|find)/i

/** Safe Haven needs the session id of an enquiry for each transfer. */
function toName(accountNumber: string, response: SafeHavenResponse): NameEnquiry {
  const { cause } = response
  if (response.kind === 'refused' && response.body && NO_ACCOUNT_TEXT.test(cause)) {
    return { kind: 'not found', cause }
  }
  if (response.kind !== 'success') return failure('unavailable', response)
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

function transferFields(order: TransferOrder, transfers: SafeHavenTransferSettings): BankFields {
  return {
    nameEnquiryReference: order.enquiryReference,
    debitAccountNumber: transfers.transferAccount,
    beneficiaryBankCode: order.beneficiary.bankCode,
    beneficiaryAccountNumber: order.beneficiary.accountNumber,
    amount: toMajorNumber(order.amountMinor),
    saveBeneficiary: false,
    narration: order.narration,
    paymentReference: order.reference,
  }
}

function toSent(order: TransferOrder, response: SafeHavenResponse): SendResult {
  if (response.kind === 'success') return stateOf(order, fieldsOf(response.body['data']) ?? {})
  if (response.kind === 'refused') return toRefusal(order, response)
  const isUnsent = response.kind === 'unreached' || (response.kind === 'denied' && !response.sent)
  return failure(isUnsent ? 'not sent' : 'unknown', response)
}

/** HTTP codes for an unacceptable request. Other codes, such as 409 and 429, prove nothing about the transfer. */
const UNACCEPTABLE = [400, 402, 404, 422]

/** A refusal is final only if Safe Haven itself states a cause by which the transfer cannot have been made. */
function toRefusal(
  order: TransferOrder,
  { code, cause, body }: Extract<SafeHavenResponse, { kind: 'refused' }>,
): TransferState {
  const data = fieldsOf(body?.['data'])
  if (data && textOf(data, 'status') !== '') return stateOf(order, data)
  const text = cause.slice(String(code).length)
  const isStated = body !== undefined && text !== '' && UNACCEPTABLE.includes(code)
  if (!isStated || leavesOpen(text)) return { kind: 'unknown', cause }
  const reason = reasonOfText(text, order)
  // "402 Request Failed" is documented for valid requests, without a cause.
  if (code === 402 && reason !== 'insufficient_float') return { kind: 'unknown', cause }
  return { kind: 'failed', cause, reason }
}

/** Reads an outgoing transfer. Responses, status queries and the list have the same form. */
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
  return difference === undefined ? statusOf(fields, order) : { kind: 'unknown', cause: difference }
}

function statusOf(fields: BankFields, order = { narration: '' }): TransferState {
  const status = plainText(textOf(fields, 'status'), 40)
  const code = plainText(textOf(fields, 'responseCode'), 10)
  const message = plainText(textOf(fields, 'responseMessage'), 200)
  const cause = `status "${status}", responseCode "${code}" ${message}`.trim()
  const word = status.toLowerCase()
  // The flag is sometimes a string in notifications.
  const isReversed = word === 'reversed' || String(fields['isReversed']) === 'true'
  if (isReversed && !FAILED_STATUSES.includes(word)) return { kind: 'returned', cause }
  if (word === 'completed' && ['', APPROVED].includes(code)) {
    const sessionId = textOf(fields, 'sessionId')
    return { kind: 'paid', sessionId: isId(sessionId) ? sessionId : '' }
  }
  if (FAILED_STATUSES.includes(word)) {
    // Such a code contradicts the failure, unless the debit was reversed.
    if (isOpenCode(code) && !isReversed) return { kind: 'unknown', cause }
    const read = readNipCode(code, cause)
    return read.kind === 'failed'
      ? read
      : { kind: 'failed', cause, reason: reasonOfText(message, order) }
  }
  // Without a status, only `queued` shows that the bank has accepted the transfer.
  if (word === '' && fields['queued'] !== true) return { kind: 'unknown', cause }
  return { kind: word === 'completed' ? 'unknown' : 'pending', cause }
}

const PAGE_SIZE = 100

/** The bank filters by whole days; one more day is read on each side. */
function pageQuery({ fromMs, toMs, page }: Part, transfers: SafeHavenTransferSettings) {
  return new URLSearchParams({
    accountId: transfers.transferAccountId,
    page: String(page),
    limit: String(PAGE_SIZE),
    fromDate: dateOf(fromMs - DAY_MS),
    toDate: dateOf(toMs + DAY_MS),
  })
}

function toPage({ page }: Part, response: SafeHavenResponse): Page {
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
  // Without a number of pages, only an empty one is the last: the bank may list fewer a page than it was asked for.
  const hasMore = entries.length > 0 && (pages === undefined || page + 1 < pages)
  return { kind: 'page', entries, hasMore }
}

function dateOf(epochMs: number): string {
  return new Date(epochMs).toISOString().slice(0, 'YYYY-MM-DD'.length)
}

/** More pages than any period has: a bank that repeats pages must not be read forever. */
const LISTED_PAGES_MAX = 10_000

/** @throws BankUnreachableError */
function toListing({ fromMs, toMs, page }: Part, read: Page, warn: (text: string) => void) {
  if (read.kind !== 'page') {
    const text = `Safe Haven did not list transfers: ${read.cause}`
    throw read.kind === 'denied'
      ? new AccessDeniedError(text)
      : new BankUnreachableError(text, read.sent)
  }
  const lines = read.entries.flatMap((entry): OutgoingLine[] => {
    if (textOf(entry, 'type').toLowerCase() !== 'outwards') return []
    const line = readLine(entry)
    if (line === undefined) warn('skipped a malformed transfer in a list of Safe Haven')
    return line && line.atMs >= fromMs && line.atMs < toMs ? [line] : []
  })
  if (page >= LISTED_PAGES_MAX) {
    throw new BankUnreachableError('the list of transfers of Safe Haven does not end', true)
  }
  return { lines, next: read.hasMore ? String(page + 1) : undefined }
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
    // A transfer whose state is unclear counts as pending.
    state: state === 'unknown' ? 'pending' : state,
  }
}

function toFloat(transfers: SafeHavenTransferSettings, response: SafeHavenResponse): FloatReading {
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
