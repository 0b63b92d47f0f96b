import type { AccountAtBank, BankPayment, PaymentListing, PaymentPage } from '../bank.ts'
import { type BankFields, fieldsOf, textOf } from '../bank-fields.ts'
import { BankUnreachable, NotListed } from '../http/bank-http.ts'
import type { SafeHavenCall } from './call.ts'
import { readPayment } from './transfer.ts'

const PAGE_SIZE = 100

/** No period has so many pages: a bank that repeats itself is not followed for ever. */
const PAGES_MAX = 1_000

/** Refusals that say nothing of the account: wrong credentials, and too many requests. */
const OF_CALLER: ReadonlySet<number> = new Set([401, 403, 429])

/**
 * The credits of one account. Among them may be what nobody transferred: a payment that is not
 * known has to be asked for before it is recorded.
 *
 * @throws BankUnreachable, NotListed
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
  const answer = await call('GET', `${accountsPath}/${id}/statement?${query}`, undefined, signal)
  if (answer.kind !== 'done') {
    const text = `Safe Haven gave no statement: ${answer.cause}`
    const ofAccount = answer.kind === 'refused' && !OF_CALLER.has(answer.code)
    throw ofAccount ? new NotListed(text) : new BankUnreachable(text, answer.kind !== 'unreached')
  }
  const entries = answer.body['data']
  if (!Array.isArray(entries)) throw new NotListed('a statement without a list')
  const payments = entries.flatMap((entry): BankPayment[] => {
    const payment = readEntry(fieldsOf(entry) ?? {}, listing.account)
    if (payment && 'cause' in payment) warn?.(`Safe Haven lists a credit whose ${payment.cause}`)
    return payment && !('cause' in payment) ? [payment] : []
  })
  const pages = pagesOf(answer.body) ?? (entries.length >= PAGE_SIZE ? PAGES_MAX : 0)
  const more = entries.length > 0 && page + 1 < Math.min(pages, PAGES_MAX)
  return { payments, next: more ? String(page + 1) : undefined }
}

/** An entry names fewer things than a transfer: the account is the one that was asked for. */
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
