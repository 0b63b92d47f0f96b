import {
  type AccountOrder,
  type AccountResult,
  type BankCode,
  type BankConnector,
  type BankOf,
  DENIED,
  type NamedConnector,
} from '../banks/bank.ts'
import { plainText } from '../banks/bank-fields.ts'
import { withTimeout } from '../core/concurrency.ts'
import { assert, type FieldFault } from '../core/errors.ts'
import { createLoop, type Loop } from '../core/loop.ts'
import { inSpan, type Span } from '../core/tracing.ts'
import type { Encrypter } from '../crypto/encryption.ts'
import type { Runtime } from '../postgres/runtime.ts'
import {
  accountNameOf,
  identityContext,
  type OpenAccount,
  type OpeningState,
  openingStateOf,
  type PendingOpening,
  type PriorState,
  pendingOpening,
  type RequestedAccount,
} from './account.ts'
import {
  claimDue,
  createStoreOpening,
  type DueOpening,
  deletePending,
  switchConnector,
  updatePending,
} from './opening-store.ts'

/** How long storing the outcome of a call may take. */
const STORE_MS = 5_000

/** How long a call claims an account: longer than the bank may take. */
export function claimMs({ callTimeoutMs }: Pick<NamedConnector, 'callTimeoutMs'>): number {
  return callTimeoutMs + STORE_MS
}

const CAUSE_CHARACTERS_MAX = 500

/** A PENDING account that this call has claimed. */
export interface OpeningRequest {
  readonly account: RequestedAccount
  readonly idType: AccountOrder['idType']
  readonly idNumber: AccountOrder['idNumber']
  readonly verification?: AccountOrder['verification']
  /** The prefix of the business's account names. */
  readonly alias: string
  readonly attempt: number
  /** The state before this attempt; `CREATING` if the process of the latest attempt died. */
  readonly priorState: OpeningState
  /** Whether a caller waits for the account. Then it is opened if the bank has not opened it yet. */
  readonly requested: boolean
  /** The span of the opening; undefined: tracing is off. */
  readonly span?: Span | undefined
}

/** The outcome of an attempt. */
export type OpeningOutcome =
  | { readonly kind: 'opened'; readonly account: OpenAccount }
  | { readonly kind: 'rejected'; readonly fields: readonly FieldFault[] }
  | ({ readonly kind: 'pending' } & PendingOpening)

export type OpenAtBank = (request: OpeningRequest) => Promise<OpeningOutcome>

interface Dependencies {
  readonly bankOf: BankOf
}

/**
 * Makes one attempt to open an account at its bank, in the way that is safe after earlier attempts,
 * and stores the outcome. Rejects only for errors of this service; the account then stays CREATING,
 * as if the process had died.
 */
export function createOpenAtBank(runtime: Runtime, dependencies: Dependencies): OpenAtBank {
  const { clock, log } = runtime
  const { orm } = runtime.database
  const { bankOf } = dependencies
  const storeOpening = createStoreOpening(runtime)
  const keepPending = async (
    { account, attempt }: OpeningRequest,
    opening: PendingOpening,
  ): Promise<OpeningOutcome> => {
    const cause = plainText(opening.cause, CAUSE_CHARACTERS_MAX)
    await updatePending(orm.em.fork(), account.id, attempt, { ...opening, cause }, clock.now())
    const { bank, reference } = account
    if (opening.refusal !== undefined) {
      log.warn({ bank, reference, cause }, 'bank refused to open an account')
    }
    if (opening.state === 'MANUAL_REVIEW') {
      const text = 'account needs manual review: run "inflow account resolve"'
      log.warn({ bank, reference, cause }, text)
    }
    return { kind: 'pending', ...opening, cause }
  }
  const toManualReview = (request: OpeningRequest, cause: string) =>
    keepPending(request, { state: 'MANUAL_REVIEW', cause, nextTryAtMs: undefined })
  const ask = async (
    request: OpeningRequest,
    served: NamedConnector,
    priorState: PriorState,
  ): Promise<OpeningOutcome> => {
    const { account, attempt } = request
    const { result, defect } = await inSpan(
      request.span?.child(`open account ${account.bank}`, {
        kind: 'client',
        attributes: { 'inflow.bank': account.bank, 'inflow.connector': served.name },
      }),
      () => askBank(served, request, priorState),
      ({ result: { kind } }) => (kind === 'opened' ? undefined : kind),
    )
    if (defect !== undefined) {
      const { bank, reference } = account
      log.error({ err: defect, bank, reference }, 'bank connector failed to open an account')
    }
    if (result.kind === 'rejected') {
      await deletePending(orm.em.fork(), account.id, attempt)
      return result
    }
    if (result.kind !== 'opened') {
      // Attempts that are known to have opened nothing do not count as unclear.
      const unclearAttempts = priorState === 'RETRYABLE' ? 1 : attempt
      return keepPending(request, pendingOpening(result, unclearAttempts, clock.now()))
    }
    if (!/^\d{10}$/.test(result.accountNumber)) {
      const number = plainText(result.accountNumber, 40)
      return toManualReview(request, `the bank opened an account with the number "${number}"`)
    }
    const stored = await storeOpening(account, result)
    if (stored.kind === 'opened') return stored
    const cause = `the bank opened ${result.accountNumber}, which is the number of another account`
    return toManualReview(request, cause)
  }
  return async (request) => {
    const { account, attempt } = request
    const resumption = resumeOpening(request, bankOf(account), clock.now())
    switch (resumption.kind) {
      case 'pending':
        return keepPending(request, resumption.opening)
      case 'ask':
        return ask(request, resumption.served, resumption.priorState)
      case 'switch': {
        const { served } = resumption
        const { name } = served
        // Stored before the call: if this process dies, the next attempt knows which connector was asked.
        const switched = await switchConnector(orm.em.fork(), account.id, attempt, name)
        assert(switched, 'a claimed account is pending')
        return ask({ ...request, account: { ...account, connector: name } }, served, 'RETRYABLE')
      }
    }
  }
}

interface BankResponse {
  readonly result: AccountResult
  /** The connector's error; it is then not known whether the bank opened the account. */
  readonly defect?: unknown
}

async function askBank(
  { connector, callTimeoutMs }: NamedConnector,
  request: OpeningRequest,
  priorState: PriorState,
): Promise<BankResponse> {
  const signal = AbortSignal.timeout(callTimeoutMs)
  const { account, alias, idType, idNumber, verification, attempt } = request
  const repeated = priorState !== 'RETRYABLE'
  const order = orderOf(account, alias, { idType, idNumber, verification, attempt, repeated })
  try {
    if (priorState === 'REQUERYING') {
      const found = await findOpened(connector, order, signal)
      if (found.kind !== 'unavailable' || !request.requested) return { result: found }
    }
    const result = await connector.openAccount(order, signal)
    // This attempt opened nothing, but an earlier attempt may have.
    if (priorState === 'RETRYING' && result.kind === 'unavailable') {
      const denied = result.refusal === 'access' && DENIED
      return { result: { kind: 'unknown', cause: result.cause, next: 'retry', ...denied } }
    }
    return { result }
  } catch (error) {
    const next = connector.afterCrash
    if (signal.aborted) {
      const cause = `no response in ${callTimeoutMs} ms`
      return { result: { kind: 'unknown', cause, next } }
    }
    return { result: { kind: 'unknown', cause: 'an error of this service', next }, defect: error }
  }
}

function findOpened(
  { findOpened }: BankConnector,
  order: AccountOrder,
  signal: AbortSignal,
): Promise<AccountResult> {
  if (findOpened) return findOpened(order, signal)
  const cause = 'the bank has no query for an earlier attempt'
  return Promise.resolve({ kind: 'unknown', cause, next: 'manual review' })
}

/** The order with which a bank opens an account, or finds it. */
export function orderOf(
  account: RequestedAccount,
  alias: string,
  attempt: Pick<AccountOrder, 'idType' | 'idNumber' | 'verification' | 'attempt' | 'repeated'>,
): AccountOrder {
  const { bank, reference, firstName, lastName, email, phone, terms } = account
  const accountName = accountNameOf(alias, firstName, lastName)
  return { bank, reference, accountName, firstName, lastName, email, phone, terms, ...attempt }
}

/** A PENDING account that a call has claimed, with its state after the earlier attempts. */
interface ClaimedOpening extends Pick<OpeningRequest, 'attempt' | 'priorState' | 'requested'> {
  readonly account: Pick<RequestedAccount, 'connector'>
}

/** How an attempt continues after the earlier attempts. */
type Resumption =
  | {
      readonly kind: 'ask'
      readonly served: NamedConnector
      readonly priorState: PriorState
    }
  /** Nothing is open, and another connector now opens the account. */
  | { readonly kind: 'switch'; readonly served: NamedConnector }
  /** No bank is asked in this attempt. */
  | { readonly kind: 'pending'; readonly opening: PendingOpening }

/**
 * Decides which connector an attempt asks. The sandbox opens no account that a real bank was asked to open, because the
 * account may be open there. A real bank does not know an account that the sandbox was asked to open.
 *
 * @param served the connector that serves the bank now; undefined: there is none
 */
export function resumeOpening(
  { account, attempt, priorState, requested }: ClaimedOpening,
  served: NamedConnector | undefined,
  nowMs: number,
): Resumption {
  if (served?.name === account.connector) {
    const { connector } = served
    const state = priorState === 'CREATING' ? openingStateOf(connector.afterCrash) : priorState
    if (state !== 'MANUAL_REVIEW') return { kind: 'ask', served, priorState: state }
    const cause = 'the process that asked the bank died'
    return { kind: 'pending', opening: { state, cause, nextTryAtMs: undefined } }
  }
  if (account.connector === 'live' && priorState !== 'RETRYABLE') {
    const cause = 'the bank may have opened the account, but is no longer live here'
    const next = priorState === 'RETRYING' ? 'retry' : 'requery'
    return {
      kind: 'pending',
      opening: pendingOpening({ kind: 'unknown', cause, next }, attempt, nowMs),
    }
  }
  if (served !== undefined && requested) return { kind: 'switch', served }
  const cause = 'the connector that was asked before no longer serves the bank'
  const opening = { state: 'RETRYABLE', cause, nextTryAtMs: undefined } as const
  return { kind: 'pending', opening }
}

/** The most openings that one turn claims; all run at once. */
const OPENINGS_MAX = 8

const IDLE_MS = 1_000

/** The time-out of calls to the sandbox. */
const CALL_TIMEOUT_MS_MIN = 10_000

interface Options {
  readonly openAtBank: OpenAtBank
  readonly encrypter: Encrypter
  /** The live banks, with how long a call of each may take. */
  readonly live: ReadonlyMap<BankCode, Pick<NamedConnector, 'callTimeoutMs'>>
  readonly aliasOf: (businessId: string) => Promise<string>
}

/** Retries openings without a clear result, if the bank allows it, until they have one. */
export function createResolveOpenings(runtime: Runtime, options: Options): Loop {
  const { clock, log } = runtime
  const { durablePool } = runtime.database
  const { live } = options
  const timeoutsMs = [...live.values()].map(({ callTimeoutMs }) => callTimeoutMs)
  // One statement claims openings at all banks, so the claims last as long as the slowest bank may take.
  const claimedMs = claimMs({ callTimeoutMs: Math.max(CALL_TIMEOUT_MS_MIN, ...timeoutsMs) })
  return createLoop({
    name: 'account openings',
    log,
    async turn() {
      const nowMs = clock.now()
      const due = await claimDue(durablePool, nowMs, nowMs + claimedMs, OPENINGS_MAX)
      await Promise.all(due.map((opening) => retryOpening(runtime, options, opening)))
      return due.length === OPENINGS_MAX ? 0 : IDLE_MS
    },
  })
}

/** A failed retry is due again when its claim expires. */
async function retryOpening(
  { log }: Runtime,
  { openAtBank, encrypter, aliasOf }: Options,
  { account, attempt, priorState, idType, idNumberEncrypted }: DueOpening,
): Promise<void> {
  const { bank, reference } = account
  try {
    const outcome = await openAtBank({
      account,
      idType,
      idNumber:
        idNumberEncrypted && encrypter.decrypt(idNumberEncrypted, identityContext(account.id)),
      alias: await aliasOf(account.businessId),
      attempt,
      priorState,
      // No caller waits for the account; the business's next request opens one.
      requested: false,
    })
    const line = { bank, reference, attempt, outcome: outcome.kind }
    log.info(line, 'retried opening an account')
  } catch (error) {
    log.warn({ err: error, bank, reference, attempt }, 'retrying to open an account failed')
  }
}

/** How long the outcome of an opening may take to be stored after its request ended. */
const STORE_AT_STOP_MS = 2_000

/** Tracks openings in progress. They continue after their callers have stopped waiting, so a stopping service waits. */
export function trackOpenings(open: OpenAtBank) {
  const inProgress = new Set<Promise<OpeningOutcome>>()
  const openAtBank: OpenAtBank = (request) => {
    const opening = open(request).finally(() => inProgress.delete(opening))
    inProgress.add(opening)
    return opening
  }
  return {
    openAtBank,
    /** Resolves when no opening is in progress, or after 2 s. */
    ended: async () =>
      void (await withTimeout(Promise.allSettled([...inProgress]), STORE_AT_STOP_MS)),
  }
}
