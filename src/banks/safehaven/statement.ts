import type { AccountAtBank, BankPayment, PaymentListing, PaymentPage } from '../bank.ts'
import { type BankFields, fieldsOf, textOf } from '../bank-fields.ts'
import { AccessDeniedError, BankUnreachableError, NotListedError } from '../http/bank-http.ts'
import type { SafeHavenCall } from './call.ts'
import { readPayment } from './transfer.ts'

const PAGE_SIZE = 100

/** More pages than any period has: bounds the listing if the bank repeats pages. */
const PAGES_MAX = 1_000

/** The one rejection that does not concern the account. */
const TOO_MANY_REQUESTS = 429

/**
 * Lists the credits of one account. Some may not be transfers, so an unrecorded payment has to be
 * requeried before it is recorded.
 *
 * @throws BankUnreachableError, NotListedError
 */
export async function listStatement(
  accountsPath: string,
  call: SafeHavenCall,
  listing: PaymentListing & { readonly account: AccountAtBank },
  signal: AbortSignal,
  warn: ((text: string) => void) | undefined,
): Promise<PaymentPage> {
  const page = Number(listing.page ?? 0)
  const query = new URLSearchParams({
    page: String(page),
    limit: String(PAGE_SIZE),
    fromDate: new Date(listing.fromMs).toISOString(),
    toDate: new Date(listing.toMs).toISOString(),
    type: 'Credit',
  })
  const id = encodeURIComponent(listing.account.bankAccountId)
  const response = await call('GET', `${accountsPath}/${id}/statement?${query}`, undefined, signal)
  if (response.kind !== 'success') {
    const text = `Safe Haven returned no statement: ${response.cause}`
    if (response.kind === 'denied') throw new AccessDeniedError(text)
    const isAboutAccount = response.kind === 'refused' && response.code !== TOO_MANY_REQUESTS
    throw isAboutAccount
      ? new NotListedError(text)
      : new BankUnreachableError(text, response.kind !== 'unreached')
  }
  const entries = response.body['data']
  if (!Array.isArray(entries)) throw new NotListedError('the statement has no list')
  const payments = entries.flatMap((entry): BankPayment[] => {
    const payment = readEntry(fieldsOf(entry) ?? {}, listing.account)
    if (payment && 'cause' in payment)
      warn?.(`skipped a malformed credit in a statement of Safe Haven: ${payment.cause}`)
    return payment && !('cause' in payment) ? [payment] : []
  })
  const pages = pagesOf(response.body) ?? (entries.length >= PAGE_SIZE ? PAGES_MAX : 0)
  const hasMore = entries.length > 0 && page + 1 < Math.min(pages, PAGES_MAX)
  return { payments, next: hasMore ? String(page + 1) : undefined }
}

/** A statement entry has fewer fields than a transfer: the requested account is filled in. */
function readEntry(fields: BankFields, account: AccountAtBank) {
  if (textOf(fields, 'type').toLowerCase() !== 'credit' || fields['isReversed'] === true) return
  return readPayment({
    ...fields,
    sessionId: textOf(fields, 'sessionId') || textOf(fields, 'paymentReference'),
    creditAccountNumber: textOf(fields, 'creditAccountNumber') || account.accountNumber,
    createdAt: textOf(fields, 'createdAt') || textOf(fields, 'transactionDate'),
  })
}

function pagesOf(body: BankFields): number | undefined {
  const text = textOf(fieldsOf(body['pagination']) ?? {}, 'pages')
  return /^\d{1,6}$/.test(text) ? Number(text) : undefined
}
