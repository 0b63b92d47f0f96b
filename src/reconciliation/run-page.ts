import { listOpenAccounts } from '../accounts/requery-accounts.ts'
import type { AccountAtBank, BankCode } from '../banks/bank.ts'
import { BankUnreachableError, NotListedError } from '../banks/http/bank-http.ts'
import type { ServedBank } from '../banks/serve-banks.ts'
import type { Database } from '../postgres/orm.ts'
import { inSpan } from '../tracing/tracing.ts'
import { findPaidAccounts } from '../transactions/find-paid-accounts.ts'
import { type RecordMissingDependencies, recordMissing } from './record-missing.ts'
import type { ClaimedRun } from './run-store.ts'

/** One step of a run: a page of the bank's list, or some of its accounts. */
interface RunStep {
  readonly run: ClaimedRun
  readonly served: ServedBank
  /** Aborts the request in progress when the service stops. */
  readonly signal: AbortSignal
  /** Extends the claim of this instance. @throws if another instance has taken over */
  readonly renew: () => Promise<void>
}

interface PageResult {
  readonly missed: number
  /** Where the next page begins; undefined when the run is finished. */
  readonly cursor: string | undefined
}

/** How many accounts a step covers, and how many of them concurrently. */
const ACCOUNTS_MAX = 32

const ACCOUNTS_CONCURRENCY = 8

/** No account has so many payments in a period: a bank that repeats pages must not loop forever. */
const PAGES_MAX = 1_000

/** How often a step fails before its failing accounts are skipped. */
const FAILURES_MAX = 3

/** A list takes longer than other calls. */
const LIST_TIMEOUT_MS_MIN = 20_000

/** @throws BankUnreachableError, NotListedError; then the page counts for nothing, and repeating it is safe */
export async function runReconciliationPage(
  dependencies: RecordMissingDependencies,
  step: RunStep,
): Promise<PageResult> {
  return step.run.scope === 'payments'
    ? runPage(dependencies, step, step.run.cursor || undefined, undefined)
    : runAccounts(dependencies, step)
}

async function runAccounts(
  dependencies: RecordMissingDependencies,
  step: RunStep,
): Promise<PageResult> {
  const { bank, scope, cursor: afterId, fromMs } = step.run
  const paidSinceMs = scope === 'active accounts' ? fromMs : undefined
  const request = { bank, afterId, paidSinceMs, limit: ACCOUNTS_MAX }
  const { accounts, cursor } = await listAccountsPage(dependencies, request)
  const skipsFailing = step.run.failures >= FAILURES_MAX
  let missed = 0
  const failed: { readonly account: AccountAtBank; readonly error: unknown }[] = []
  for (let at = 0; at < accounts.length; at += ACCOUNTS_CONCURRENCY) {
    const some = accounts.slice(at, at + ACCOUNTS_CONCURRENCY)
    // After one failure the others must not go on under a claim that has been released.
    const counts = await Promise.allSettled(
      some.map((account) => runAccount(dependencies, step, account)),
    )
    for (const [index, count] of counts.entries()) {
      if (count.status === 'fulfilled') missed += count.value
      else failed.push({ account: some[index] as AccountAtBank, error: count.reason })
    }
    if (failed.length > 0 && !skipsFailing) throw failed[0]?.error
  }
  const isUnavailable = isBankUnavailable(
    failed.map(({ error }) => error),
    accounts.length,
  )
  if (failed.length > 0 && (isUnavailable || step.signal.aborted)) throw failed[0]?.error
  for (const { account, error } of failed) {
    const context = { err: error, bank, accountNumber: account.accountNumber }
    dependencies.log.warn(context, 'the payments of an account could not be listed; skipped')
  }
  return { missed, cursor }
}

/** Accounts of an unavailable bank are never skipped: no later run would cover their payments. */
function isBankUnavailable(errors: readonly unknown[], accounts: number): boolean {
  // A request that was not sent says nothing about the account.
  if (errors.some((error) => error instanceof BankUnreachableError && !error.sent)) return true
  return errors.length === accounts && !errors.some((error) => error instanceof NotListedError)
}

async function runAccount(
  dependencies: RecordMissingDependencies,
  step: RunStep,
  account: AccountAtBank,
): Promise<number> {
  let missed = 0
  let page: string | undefined
  for (let pages = 0; pages < PAGES_MAX; pages++) {
    const result = await runPage(dependencies, step, page, account)
    missed += result.missed
    if (result.cursor === undefined) return missed
    page = result.cursor
  }
  throw new NotListedError(`the list of account ${account.accountNumber} does not end`)
}

async function runPage(
  dependencies: RecordMissingDependencies,
  { run, served, signal, renew }: RunStep,
  page: string | undefined,
  account: AccountAtBank | undefined,
): Promise<PageResult> {
  await renew()
  const { fromMs, toMs } = run
  const timeoutMs = Math.max(served.callTimeoutMs, LIST_TIMEOUT_MS_MIN)
  const timed = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
  const span = dependencies.tracing?.start(`list payments ${run.bank}`, {
    kind: 'client',
    attributes: { 'inflow.bank': run.bank },
  })
  const listed = await inSpan(span, async () =>
    served.connector.listPayments?.({ fromMs, toMs, page, account }, timed),
  )
  if (listed === undefined) return { missed: 0, cursor: undefined }
  const missed = await recordMissing(dependencies, run.bank, served, listed.payments)
  return { missed, cursor: listed.next }
}

interface AccountsRequest {
  readonly bank: BankCode
  /** The last account of the page before; empty at the beginning. */
  readonly afterId: string
  /** Only accounts with a payment since then; undefined: all. */
  readonly paidSinceMs: number | undefined
  readonly limit: number
}

interface AccountsPage {
  readonly accounts: readonly AccountAtBank[]
  /** Where the next page begins; undefined at the end. */
  readonly cursor: string | undefined
}

/** How many accounts one statement reads, whether or not they have payments. */
const SCANNED_MAX = 2_000

/** Lists the open accounts that the real bank has opened: it does not know those of the sandbox. */
export async function listAccountsPage(
  { pool, orm }: Pick<Database, 'pool' | 'orm'>,
  { bank, afterId, paidSinceMs, limit }: AccountsRequest,
): Promise<AccountsPage> {
  const scannedMax = paidSinceMs === undefined ? limit : SCANNED_MAX
  const scanned = await listOpenAccounts(orm.em.fork(), bank, afterId, scannedMax)
  const ids = scanned.map(({ id }) => id)
  const paid =
    paidSinceMs === undefined ? undefined : await findPaidAccounts(pool, ids, paidSinceMs)
  const requested = scanned.filter(({ id }) => paid?.has(id) ?? true)
  const accounts = requested.slice(0, limit)
  const last = requested.length > limit ? accounts.at(-1) : scanned.at(-1)
  const more = requested.length > limit || scanned.length === scannedMax
  return { accounts, cursor: more ? last?.id : undefined }
}
