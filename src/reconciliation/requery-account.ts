import { isOpened, type OpenAccount } from '../accounts/account.ts'
import { type AccountKey, getAccount } from '../accounts/get-account.ts'
import { claimRequery } from '../accounts/list-accounts.ts'
import type { BankCode, PaymentPage } from '../banks/bank.ts'
import { accessDenied } from '../banks/bank.ts'
import { AccessDeniedError, BankUnreachableError, NotListedError } from '../banks/http/bank-http.ts'
import type { ServedBank } from '../banks/serve-banks.ts'
import { DAY_MS } from '../core/durations.ts'
import { Fault } from '../core/errors.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { type RecordMissingDependencies, recordMissing } from './record-missing.ts'

interface Dependencies extends Omit<RecordMissingDependencies, 'onMissed'> {
  readonly live: ReadonlyMap<BankCode, ServedBank>
}

/** The result of a requery. */
interface RequeriedPayments {
  readonly account: OpenAccount
  /** How many payments the bank reported. */
  readonly found: number
  /** How many of them were not recorded before. */
  readonly recorded: number
}

/** The shortest time between two requeries of an account, at all instances together. */
const EVERY_MS = 60_000

/** How far back payments are requested from the bank. */
const WINDOW_MS = 7 * DAY_MS

/** The least time-out for all pages together. The requery of each missing payment is not included. */
const LIST_TIMEOUT_MS_MIN = 20_000

/** No account has so many payments in the window: a bank that repeats pages must not loop forever. */
const PAGES_MAX = 100

/**
 * Asks the bank of an account for its payments, and records the missing ones, as reconciliation
 * does. An account of the sandbox has no missing payments: the sandbox records what it simulates.
 *
 * @throws Fault not_found, account_pending, rate_limited (the bank was asked less than a minute ago),
 * requery_unsupported (the bank cannot list payments), bank_unavailable
 */
export async function requeryAccount(
  runtime: Runtime,
  dependencies: Dependencies,
  key: AccountKey,
): Promise<RequeriedPayments> {
  const { clock } = runtime
  const { durablePool } = runtime.database
  const { live } = dependencies
  const account = await getAccount(durablePool, key)
  if (!isOpened(account)) {
    throw new Fault('account_pending', 'The account is still pending and has no payments')
  }
  if (account.connector === 'sandbox') return { account, found: 0, recorded: 0 }
  const served = live.get(account.bank)
  if (served === undefined) throw unavailable(`${account.bank} is not a live bank here`)
  const { listing, listPayments } = served.connector
  if (listing === undefined || listPayments === undefined) {
    const text = `${account.bank} cannot list the payments of an account`
    throw new Fault('requery_unsupported', text)
  }
  const waitMs = await claimRequery(durablePool, account.id, clock.now(), EVERY_MS)
  if (waitMs > 0) {
    const retryAfterSeconds = Math.ceil(waitMs / 1_000)
    const text = `The bank was asked about this account a moment ago; try again in ${retryAfterSeconds} s`
    throw new Fault('rate_limited', text, { retryAfterSeconds })
  }
  return recordListed(runtime, dependencies, served, account)
}

async function recordListed(
  runtime: Runtime,
  dependencies: Dependencies,
  served: ServedBank,
  account: OpenAccount & { readonly bankAccountId: string },
): Promise<RequeriedPayments> {
  const toMs = runtime.clock.now()
  const period = { fromMs: toMs - WINDOW_MS, toMs, account }
  const signal = AbortSignal.timeout(Math.max(served.callTimeoutMs, LIST_TIMEOUT_MS_MIN))
  // The notification of a missing payment may still be on the way, so it is not counted as missed.
  const missing = { ...dependencies, onMissed: () => undefined }
  let [found, recorded] = [0, 0]
  let page: string | undefined
  for (let pages = 0; pages < PAGES_MAX; pages++) {
    const listed = await listPage(served, { ...period, page }, signal)
    // A bank may list the payments of all accounts.
    const payments = listed.payments.filter((each) => each.accountNumber === account.accountNumber)
    found += payments.length
    const own = { payments, isCut: listed.isCut }
    recorded += await recordMissing(runtime, missing, account.bank, served, own)
    page = listed.next
    if (page === undefined) return { account, found, recorded }
  }
  throw unavailable(`the list of account ${account.accountNumber} does not end`)
}

type Listing = Parameters<NonNullable<ServedBank['connector']['listPayments']>>[0]

async function listPage(
  { connector }: ServedBank,
  listing: Listing,
  signal: AbortSignal,
): Promise<PaymentPage> {
  try {
    const listed = await connector.listPayments?.(listing, signal)
    return listed ?? { payments: [], next: undefined }
  } catch (error) {
    if (error instanceof AccessDeniedError) throw accessDenied(error)
    const isOfBank = error instanceof BankUnreachableError || error instanceof NotListedError
    throw isOfBank ? unavailable(error) : error
  }
}

/** @param cause for the log */
function unavailable(cause: unknown): Fault {
  const text = 'The bank did not list the payments; try again in a minute'
  return new Fault('bank_unavailable', text, { retryAfterSeconds: EVERY_MS / 1_000, cause })
}
