import type { AccountAtBank } from '../banks/bank.ts'
import { BankUnreachableError, NotListedError } from '../banks/http/bank-http.ts'
import type { ServedBank } from '../banks/serve-banks.ts'
import { listAccountsPage } from './list-accounts-page.ts'
import { type RecordMissingDependencies, recordMissing } from './record-missing.ts'
import type { ClaimedRun } from './run-store.ts'

/** One step of a pass: a page of the bank's, or some of its accounts. */
interface Portion {
  readonly pass: ClaimedRun
  readonly served: ServedBank
  /** Ends the request under way when the service stops. */
  readonly signal: AbortSignal
  /** Keeps the pass this instance's. @throws when it is not any more */
  readonly renew: () => Promise<void>
}

/** What a portion came to. */
interface PageResult {
  readonly missed: number
  /** Where the next one begins; undefined when the pass is over. */
  readonly place: string | undefined
}

/** How many accounts a portion asks for, and how many of them at once. */
const ACCOUNTS_MAX = 32
const ACCOUNTS_AT_ONCE = 8

/** No account has so many payments in a period: a bank that repeats itself is not followed for ever. */
const PAGES_MAX = 1_000

/** How often a portion fails before the accounts in it that do are left out. */
const FAILURES_MAX = 3

const LIST_TIMEOUT_MS = 20_000

/** @throws BankUnreachableError, NotListedError; then nothing of it counts, and doing it again is safe */
export async function runReconciliationPage(
  dependencies: RecordMissingDependencies,
  portion: Portion,
): Promise<PageResult> {
  return portion.pass.scope === 'payments'
    ? runPage(dependencies, portion, portion.pass.place || undefined, undefined)
    : runAccounts(dependencies, portion)
}

async function runAccounts(
  dependencies: RecordMissingDependencies,
  portion: Portion,
): Promise<PageResult> {
  const { bank, scope, place: afterId, fromMs } = portion.pass
  const paidSinceMs = scope === 'active accounts' ? fromMs : undefined
  const walk = { bank, afterId, paidSinceMs, limit: ACCOUNTS_MAX }
  const { accounts, place } = await listAccountsPage(dependencies.pool, walk)
  const tired = portion.pass.failures >= FAILURES_MAX
  let missed = 0
  const failed: { readonly account: AccountAtBank; readonly error: unknown }[] = []
  for (let at = 0; at < accounts.length; at += ACCOUNTS_AT_ONCE) {
    const some = accounts.slice(at, at + ACCOUNTS_AT_ONCE)
    // One that fails must not leave others at work behind a claim that is given back.
    const counts = await Promise.allSettled(
      some.map((account) => runAccount(dependencies, portion, account)),
    )
    for (const [index, count] of counts.entries()) {
      if (count.status === 'fulfilled') missed += count.value
      else failed.push({ account: some[index] as AccountAtBank, error: count.reason })
    }
    if (failed.length > 0 && !tired) throw failed[0]?.error
  }
  const isAway = isBankAway(
    failed.map(({ error }) => error),
    accounts.length,
  )
  if (failed.length > 0 && (isAway || portion.signal.aborted)) throw failed[0]?.error
  for (const { account, error } of failed) {
    const about = { err: error, bank, accountNumber: account.accountNumber }
    dependencies.log.warn(about, 'the payments of an account could not be listed; it is left out')
  }
  return { missed, place }
}

/** Accounts of a bank that is away are never left out: nobody would ask for them in time. */
function isBankAway(errors: readonly unknown[], accounts: number): boolean {
  // What was not sent says nothing of the account.
  if (errors.some((error) => error instanceof BankUnreachableError && !error.sent)) return true
  return errors.length === accounts && !errors.some((error) => error instanceof NotListedError)
}

async function runAccount(
  dependencies: RecordMissingDependencies,
  portion: Portion,
  account: AccountAtBank,
): Promise<number> {
  let missed = 0
  let page: string | undefined
  for (let pages = 0; pages < PAGES_MAX; pages++) {
    const result = await runPage(dependencies, portion, page, account)
    missed += result.missed
    if (result.place === undefined) return missed
    page = result.place
  }
  throw new NotListedError(`the list of account ${account.accountNumber} does not end`)
}

async function runPage(
  dependencies: RecordMissingDependencies,
  { pass, served, signal, renew }: Portion,
  page: string | undefined,
  account: AccountAtBank | undefined,
): Promise<PageResult> {
  await renew()
  const { fromMs, toMs } = pass
  const timed = AbortSignal.any([signal, AbortSignal.timeout(LIST_TIMEOUT_MS)])
  const listed = await served.connector.listPayments?.({ fromMs, toMs, page, account }, timed)
  if (listed === undefined) return { missed: 0, place: undefined }
  const missed = await recordMissing(dependencies, pass.bank, served, listed.payments)
  return { missed, place: listed.next }
}
