import { setTimeout as wait } from 'node:timers/promises'
import type { Pool } from 'pg'
import {
  accessDenied,
  type BankCode,
  type BankOf,
  type NamedConnector,
  type Verification,
} from '../banks/bank.ts'
import { withTimeout } from '../core/concurrency.ts'
import { assert, Fault, invalidFields } from '../core/errors.ts'
import { isReference, newId, newReference } from '../core/ids.ts'
import type { Span } from '../core/tracing.ts'
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
import { claimPending, releaseUnasked } from './opening-store.ts'
import { FROM_THE_START } from './splits/split.ts'
import {
  findByMerchantReference,
  findIdentityHash,
  insertReservations,
  isImportedReference,
  type Reservation,
} from './store.ts'
import { findHashed, withoutLoneKind } from './stored-details.ts'
import { expiryOf, newExpiryFault } from './terms.ts'

/** How long a caller waits for the bank, or for another call that is asking the bank. The call to the bank continues. */
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
  /** Not a part of the details, because each attempt may need a new verification. It is not stored. */
  readonly verification?: Verification | undefined
  /** Why no new account is opened with these details. A repeated request still returns its account. */
  readonly refusal?: Fault | undefined
  /** The span of the request; undefined: tracing is off. */
  readonly span?: Span | undefined
}

interface Created {
  readonly account: OpenAccount
  /** Whether an earlier call had already opened the account. */
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
 * The account is stored as PENDING before the bank is called, and the call that stored it holds a claim for a while. A
 * repeated call waits for that call. If that call died or had no clear result, the repeated call takes the account over
 * in the way that the bank allows.
 *
 * Faults: not_found (the business), duplicate_reference, validation_failed (the bank rejected the
 * customer's details, the expiry of a new account has passed or is too far off, or its reference has the form of the
 * references that Inflow assigns), bank_refused (for a cause that does not pass by itself; the account stays PENDING),
 * account_in_review (an operator decides whether the account is open), bank_unavailable (the account stays PENDING,
 * and a repeated call tries again; or no connector serves the bank in this mode, and nothing is stored).
 */
export function createCreateAccount(
  runtime: Runtime,
  dependencies: Dependencies,
): CreateAccountCall {
  const reserve = createReserve(runtime)
  const batched = { ...dependencies, reserve }
  const inProgress = new Map<string, Promise<Created>>()
  return async (requested) => {
    const request = withoutLoneKind(requested)
    const detailsHash = dependencies.encrypter.fingerprint(detailsText(request))
    const { businessId, live, reference, refusal, verification } = request
    const details = [detailsHash.toString('hex'), verification, refusal === undefined]
    const key = JSON.stringify([businessId, live, reference, ...details])
    const first = inProgress.get(key)
    if (first !== undefined) return { ...(await first), replayed: true }
    const call = createOnce(runtime, batched, request, detailsHash).finally(() =>
      inProgress.delete(key),
    )
    inProgress.set(key, call)
    return call
  }
}

/**
 * Creates the function that stores a PENDING account. If it rejects, its caller does not ask the bank, although the account may be
 * stored all the same.
 */
function createReserve({ clock, database: { durablePool } }: Runtime) {
  const abandoned = new WeakSet<Reservation>()
  /** If this fails, too, the account is resumed as if the process had died while it asked the bank. */
  const release = (rows: readonly Reservation[]) => {
    const ids = rows.map(({ id }) => id)
    return releaseUnasked(durablePool, ids, clock.now()).catch(() => undefined)
  }
  const reserve = createBatcher<Reservation, boolean>({
    run: async (rows) => {
      const inserted = await insertReservations(durablePool, rows).catch((error: unknown) => {
        // The statement may have been committed although its response was lost.
        void release(rows)
        throw error
      })
      const late = rows.filter((row) => abandoned.has(row) && inserted.has(row.id))
      if (late.length > 0) await release(late)
      return rows.map((row) => inserted.has(row.id))
    },
    itemsMax: 64,
    batchesMax: 2,
    queueMax: 10_000,
  })
  return (row: Reservation): Promise<boolean> =>
    reserve(row).catch((error: unknown) => {
      abandoned.add(row)
      throw error
    })
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
  // A repeated request returns its account even after the account has expired, or a recipient's approval was revoked.
  const refusal =
    refusalOf(request, clock.now(), served !== undefined) ??
    (await referenceRefusalOf(durablePool, request))
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
    // The bank may have rejected the other call, so the reference may be free again. The claim starts now, because an older
    // claim would expire while this call is asking the bank.
    if (stored === undefined) {
      reserved = await reserve({ ...row, claimedUntilMs: clock.now() + claimMs(served) })
    }
  }
  assert(row, 'only an account that can be opened is reserved')
  return open({ account: row, attempt: 1, priorState: 'RETRYABLE' })
}

/** Whether a request has the details of a stored account, with or without an identity that was attached later. */
async function isRepeat(
  { database: { durablePool } }: Runtime,
  { encrypter }: Dependencies,
  request: CreateAccount,
  { id, detailsHash }: StoredAccount,
): Promise<boolean> {
  const hashed = findHashed(encrypter, request, detailsHash)
  if (hashed === undefined) return false
  const { idType, idNumber } = request
  if (!idNumber || hashed.idNumber) return true
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
  { bank, reference, terms, refusal }: CreateAccount,
  nowMs: number,
  isServed: boolean,
): Fault | undefined {
  // Accounts are found by either reference, so a reference that Inflow assigned to another account would name two.
  if (isReference(reference)) return invalidFields([REFERENCE_IS_ASSIGNED])
  if (refusal !== undefined) return refusal
  if (!isServed) return notServed(bank)
  const expiresAtMs = terms?.expiresAtMs
  return expiresAtMs === undefined ? undefined : newExpiryFault(expiresAtMs, nowMs)
}

/** Imported accounts keep their provider's reference, which always begins with `R-`. */
async function referenceRefusalOf(
  pool: Pool,
  { businessId, live, reference }: CreateAccount,
): Promise<Fault | undefined> {
  if (!reference.startsWith('R-')) return undefined
  if (!(await isImportedReference(pool, businessId, live, reference))) return undefined
  return invalidFields([{ field: 'reference', message: 'is the reference of another account' }])
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
    // The caller has stopped waiting, but the account that the bank opens is still stored.
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

/** A repeated call may succeed once the operator has removed the cause, which is logged. */
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

/** A repeated call would get the same error until an operator decides, which appends an event or frees the reference. */
function inReview(cause: string): Fault {
  const text =
    'The bank gave no clear response, so an operator is asking it; do not repeat the request. ' +
    'You get ACCOUNT_CREATED if the account is open, and not_found from getVirtualAccount if it is not'
  return new Fault('account_in_review', text, { cause })
}
