import { setTimeout as wait } from 'node:timers/promises'
import type { BankCode, BankOf, NamedConnector, Verification } from '../banks/bank.ts'
import { accessDenied } from '../banks/bank.ts'
import { assert, Fault, invalidFields } from '../core/errors.ts'
import { isReference, newId, newReference } from '../core/ids.ts'
import type { Span } from '../core/tracing.ts'
import { withTimeout } from '../core/with-timeout.ts'
import type { Encrypter } from '../crypto/encryption.ts'
import { createBatcher } from '../postgres/batcher.ts'
import type { Runtime } from '../postgres/runtime.ts'
import {
  type AccountDetails,
  detailsText,
  identityContext,
  identityText,
  isOpened,
  type OpenAccount,
  REFERENCE_IS_ASSIGNED,
  type StoredAccount,
} from './account.ts'
import {
  claimMs,
  type OpenAtBank,
  type OpeningOutcome,
  type OpeningRequest,
} from './open-at-bank.ts'
import { claimPending } from './opening-store.ts'
import { FROM_THE_START } from './splits/split.ts'
import {
  findByMerchantReference,
  findIdentityHash,
  insertReservations,
  type Reservation,
} from './store.ts'
import { withoutIdentity } from './stored-details.ts'
import { expiryOf, newExpiryFault } from './terms.ts'

/** How long a caller waits for the bank, or for the call that is asking it. The call to the bank goes on. */
const WAIT_MS = 20_000

const POLL_MS = 50

const RETRY_AFTER_SECONDS = 5

/** Longer, because an operator has to act first. */
const OPERATOR_RETRY_AFTER_SECONDS = 300

interface CreateAccount extends AccountDetails {
  readonly businessId: string
  /** True in live mode; false in test mode, where the sandbox serves every bank. */
  readonly live: boolean
  /** The business's own reference. */
  readonly reference: string
  /** Not one of the details: each attempt may need a new one. It is not stored. */
  readonly verification?: Verification | undefined
  /** The step that requests it; undefined: tracing is off. */
  readonly span?: Span | undefined
}

interface Created {
  readonly account: OpenAccount
  /** Whether an earlier call had already opened it. */
  readonly replayed: boolean
}

export type CreateAccountCall = (request: CreateAccount) => Promise<Created>

interface Dependencies {
  readonly bankOf: BankOf
  readonly openAtBank: OpenAtBank
  readonly encrypter: Encrypter
  /** The prefix of a business's account names; throws Fault not_found. */
  readonly aliasOf: (businessId: string) => Promise<string>
}

/**
 * Opens an account at a bank exactly once for each business, mode and reference, however often the
 * request is repeated.
 *
 * The account is stored as PENDING before the bank is called, and the call that stored it holds a
 * claim for a while. A repeat waits for that call; if that call died or had no clear result, the
 * repeat takes the account over in the way that the bank allows.
 *
 * Faults: not_found (the business), duplicate_reference, validation_failed (the bank rejected the
 * customer's details, the expiry of a new account has passed or is too far off, or its reference has the form of an
 * assigned one), bank_refused (this request, for a cause that does not pass by itself; the account stays PENDING),
 * account_in_review (an operator decides whether the account is open), bank_unavailable (the account stays PENDING,
 * and a repeat tries again; or no connector serves the bank in this mode, and nothing is stored).
 */
export function createCreateAccount(
  runtime: Runtime,
  dependencies: Dependencies,
): CreateAccountCall {
  const { durablePool } = runtime.database
  const reserve = createBatcher<Reservation, boolean>({
    run: async (rows) => {
      const inserted = await insertReservations(durablePool, rows)
      return rows.map((row) => inserted.has(row.id))
    },
    itemsMax: 64,
    batchesMax: 2,
    queueMax: 10_000,
  })
  const batched = { ...dependencies, reserve }
  const inProgress = new Map<string, Promise<Created>>()
  return async (request) => {
    const detailsHash = dependencies.encrypter.fingerprint(detailsText(request))
    const { businessId, live, reference } = request
    const key = JSON.stringify([businessId, live, reference, detailsHash.toString('hex')])
    const first = inProgress.get(key)
    if (first !== undefined) return { ...(await first), replayed: true }
    const call = createOnce(runtime, batched, request, detailsHash).finally(() =>
      inProgress.delete(key),
    )
    inProgress.set(key, call)
    return call
  }
}

interface BatchedDependencies extends Dependencies {
  readonly reserve: (row: Reservation) => Promise<boolean>
}

async function createOnce(
  runtime: Runtime,
  dependencies: BatchedDependencies,
  request: CreateAccount,
  detailsHash: Buffer,
): Promise<Created> {
  const { clock } = runtime
  const { durablePool } = runtime.database
  const { aliasOf, bankOf, reserve } = dependencies
  const { businessId, live, reference } = request
  const alias = await aliasOf(businessId)
  const served = bankOf(request)
  // A repeat returns its account also after the account has expired.
  const refusal = refusalOf(request, clock.now(), served !== undefined)
  const row =
    served && !refusal
      ? newReservation(runtime, dependencies, request, detailsHash, served)
      : undefined
  const untilMs = clock.now() + WAIT_MS
  const open = (opening: Pick<OpeningRequest, 'account' | 'attempt' | 'priorState'>) => {
    const { idType, idNumber, verification } = request
    const customer = { idType, idNumber, verification, alias, span: request.span }
    return openForCaller(
      runtime,
      dependencies,
      { ...opening, ...customer, requested: true },
      untilMs,
    )
  }
  let reserved = row !== undefined && (await reserve(row))
  while (!reserved) {
    const nowMs = clock.now()
    const stored = await findByMerchantReference(durablePool, businessId, live, reference)
    if (stored !== undefined) {
      if (!(await isRepeat(runtime, dependencies, request, stored))) {
        throw new Fault('duplicate_reference', 'The reference was used before with other details')
      }
      if (isOpened(stored)) return { account: stored, replayed: true }
      if (stored.openingState === 'MANUAL_REVIEW') throw inReview(stored.lastCause)
      if (served === undefined) throw notServed(request.bank)
      const claim = await claimPending(durablePool, stored.id, nowMs, nowMs + claimMs(served))
      if (claim !== undefined) return open({ account: stored, ...claim })
    }
    if (row === undefined || served === undefined) throw refusal ?? notServed(request.bank)
    if (nowMs > untilMs) throw bankUnavailable('another call is asking the bank')
    await wait(POLL_MS)
    // The bank may have rejected the other call, so the reference may be free again. The claim
    // starts now: an older one would expire while this call is asking the bank.
    if (stored === undefined) {
      reserved = await reserve({ ...row, claimedUntilMs: clock.now() + claimMs(served) })
    }
  }
  assert(row, 'only what can be opened is reserved')
  return open({ account: row, attempt: 1, priorState: 'RETRYABLE' })
}

/** Whether a request has the details of a stored account; with an identity that was attached since, or without. */
async function isRepeat(
  { database: { durablePool } }: Runtime,
  { encrypter }: Dependencies,
  request: CreateAccount,
  { id, detailsHash }: StoredAccount,
): Promise<boolean> {
  if (encrypter.matches(detailsText(request), detailsHash)) return true
  const { idType, idNumber } = request
  if (!idNumber) return false
  if (!encrypter.matches(detailsText(withoutIdentity(request)), detailsHash)) return false
  const attached = await findIdentityHash(durablePool, id)
  return attached !== undefined && encrypter.matches(identityText(idType, idNumber), attached)
}

function newReservation(
  { clock }: Runtime,
  { encrypter }: Dependencies,
  request: CreateAccount,
  detailsHash: Buffer,
  served: NamedConnector,
): Reservation {
  const nowMs = clock.now()
  const id = newId('acc', nowMs)
  return {
    id,
    businessId: request.businessId,
    live: request.live,
    reference: newReference(),
    merchantReference: request.reference,
    bank: request.bank,
    connector: served.name,
    firstName: request.firstName,
    lastName: request.lastName,
    email: request.email,
    phone: request.phone,
    idType: request.idType ?? null,
    idNumberEncrypted: request.idNumber
      ? encrypter.encrypt(request.idNumber, identityContext(id))
      : null,
    idNumberHash: request.idNumber
      ? encrypter.fingerprint(identityText(request.idType, request.idNumber))
      : null,
    detailsHash,
    claimedUntilMs: nowMs + claimMs(served),
    createdAtMs: nowMs,
    terms: request.terms && {
      ...request.terms,
      expiresAtMs: expiryOf(request.terms, nowMs),
      usedAtMs: undefined,
      endedAtMs: undefined,
    },
    metadata: request.metadata,
    split: request.split && {
      id: newId('spl', nowMs),
      accountId: id,
      validFromMs: FROM_THE_START,
      split: request.split,
    },
  }
}

/** Why no new account is opened; undefined if one may be. */
function refusalOf(
  { bank, reference, terms }: CreateAccount,
  nowMs: number,
  isServed: boolean,
): Fault | undefined {
  // Either reference finds an account, so one that is assigned to another account would name two.
  if (isReference(reference)) return invalidFields([REFERENCE_IS_ASSIGNED])
  if (!isServed) return notServed(bank)
  const expiresAtMs = terms?.expiresAtMs
  return expiresAtMs === undefined ? undefined : newExpiryFault(expiresAtMs, nowMs)
}

async function openForCaller(
  { clock }: Runtime,
  { openAtBank }: Dependencies,
  request: OpeningRequest,
  untilMs: number,
): Promise<Created> {
  const opening = openAtBank(request)
  while (!(await withTimeout(opening, POLL_MS))) {
    if (clock.now() <= untilMs) continue
    // Without the caller, what the bank opens is stored all the same.
    opening.catch(() => undefined)
    throw bankUnavailable('the bank has not responded yet')
  }
  const outcome: OpeningOutcome = await opening
  if (outcome.kind === 'opened') return { account: outcome.account, replayed: false }
  if (outcome.kind === 'rejected') throw invalidFields(outcome.fields)
  const { state, cause, refusal } = outcome
  if (state === 'MANUAL_REVIEW') throw inReview(cause)
  if (refusal === 'access') throw accessDenied(cause)
  throw refusal === 'request' ? bankRefused(cause) : bankUnavailable(cause)
}

function bankUnavailable(cause: string): Fault {
  return new Fault('bank_unavailable', 'The bank did not respond; repeat the request', {
    retryAfterSeconds: RETRY_AFTER_SECONDS,
    cause,
  })
}

/** A repeat may succeed once the operator has removed the cause, which the log has. */
function bankRefused(cause: string): Fault {
  const text =
    'The bank refused to open the account; nothing was opened. The operator has its cause'
  return new Fault('bank_refused', text, { cause })
}

/** The sandbox would invent a number, which may be a stranger's real account. */
function notServed(bank: BankCode): Fault {
  return new Fault(
    'bank_unavailable',
    `${bank} is not connected here, so it opens no live accounts; use another bank or a test key`,
    {
      retryAfterSeconds: OPERATOR_RETRY_AFTER_SECONDS,
      cause: `the sandbox serves ${bank}: set ${bank}=live in BANKS, or ALLOW_SIMULATED_LIVE_ACCOUNTS=on`,
    },
  )
}

/** A repeat would only find the same: the operator's decision is an event, or frees the reference. */
function inReview(cause: string): Fault {
  const text =
    'The bank gave no clear response, so an operator is asking it; do not repeat the request. ' +
    'You get ACCOUNT_CREATED if the account is open, and not_found from getVirtualAccount if it is not'
  return new Fault('account_in_review', text, { cause })
}
