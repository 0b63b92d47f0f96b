import { setTimeout as wait } from 'node:timers/promises'
import type { Pool } from 'pg'
import type { Clock } from '../core/clock.ts'
import { Fault, invalidFields } from '../core/errors.ts'
import { newId, newReference } from '../core/ids.ts'
import type { Encrypter } from '../crypto/encryption.ts'
import { createBatcher } from '../postgres/batcher.ts'
import {
  type AccountDetails,
  detailsText,
  identityContext,
  identityText,
  isOpened,
  type OpenAccount,
} from './account.ts'
import { type Asking, CLAIM_MS, type OpenAtBank } from './open-at-bank.ts'
import { claimPending } from './opening-store.ts'
import { findByMerchantReference, insertReservations, type Reservation } from './store.ts'

/** How long a repeat waits for the call that is at the bank: longer than that call has. */
const WAIT_MS = 20_000

const POLL_MS = 50

const RETRY_AFTER_SECONDS = 5

/** A person has to look first. */
const RETRY_AFTER_PERSON_SECONDS = 300

interface CreateAccount extends AccountDetails {
  readonly businessId: string
  /** In live mode; false: in test mode, at the sandbox whatever bank it names. */
  readonly live: boolean
  /** The business's own reference. */
  readonly reference: string
}

interface Created {
  readonly account: OpenAccount
  /** Whether an earlier call had already opened it. */
  readonly replayed: boolean
}

export type CreateAccountCall = (request: CreateAccount) => Promise<Created>

interface Dependencies {
  readonly pool: Pool
  readonly openAtBank: OpenAtBank
  readonly encrypter: Encrypter
  readonly clock: Clock
  /** What a business's account names begin with; throws Fault not_found. */
  readonly aliasOf: (businessId: string) => Promise<string>
}

/**
 * Opens an account at a bank, once for each reference of a business in a mode, however often it is
 * asked for.
 *
 * The account is stored as PENDING before the bank is called, and whoever stored it has the bank to
 * itself for a while. A repeat waits for that call; when that call died or came to no clear end, it
 * takes over in the way that the bank allows.
 *
 * Faults: not_found (the business), duplicate_reference, validation_failed (the bank found the
 * customer's details wrong), bank_unavailable (the account stays PENDING, a repeat goes on).
 */
export function createCreateAccount(dependencies: Dependencies): CreateAccountCall {
  const { pool } = dependencies
  const reserve = createBatcher<Reservation, boolean>({
    run: async (rows) => {
      const inserted = await insertReservations(pool, rows)
      return rows.map((row) => inserted.has(row.id))
    },
    itemsMax: 64,
    batchesMax: 2,
    queueMax: 10_000,
  })
  const steps = { ...dependencies, reserve }
  const underWay = new Map<string, Promise<Created>>()
  return async (request) => {
    const detailsHash = dependencies.encrypter.fingerprint(detailsText(request))
    const { businessId, live, reference } = request
    const key = JSON.stringify([businessId, live, reference, detailsHash.toString('hex')])
    const first = underWay.get(key)
    if (first !== undefined) return { ...(await first), replayed: true }
    const call = createOnce(steps, request, detailsHash).finally(() => underWay.delete(key))
    underWay.set(key, call)
    return call
  }
}

interface Steps extends Dependencies {
  readonly reserve: (row: Reservation) => Promise<boolean>
}

async function createOnce(
  steps: Steps,
  request: CreateAccount,
  detailsHash: Buffer,
): Promise<Created> {
  const { pool, clock, aliasOf } = steps
  const { businessId, live, reference } = request
  const alias = await aliasOf(businessId)
  const row = newReservation(steps, request, detailsHash)
  const ask = (asking: Pick<Asking, 'account' | 'attempt' | 'before'>) => {
    const { idType, idNumber } = request
    return openForCaller(steps, { ...asking, idType, idNumber, alias, wanted: true })
  }
  const untilMs = clock.now() + WAIT_MS
  let reserved = await steps.reserve(row)
  while (!reserved) {
    const nowMs = clock.now()
    const stored = await findByMerchantReference(pool, businessId, live, reference)
    if (stored !== undefined) {
      if (!steps.encrypter.matches(detailsText(request), stored.detailsHash)) {
        throw new Fault('duplicate_reference', 'The reference was used before with other details')
      }
      if (isOpened(stored)) return { account: stored, replayed: true }
      if (stored.openingState === 'PERSON') throw needsPerson(stored.lastCause)
      const claim = await claimPending(pool, stored.id, nowMs, nowMs + CLAIM_MS)
      if (claim !== undefined) return ask({ account: stored, ...claim })
    }
    if (nowMs > untilMs) throw bankUnavailable('another call is at the bank')
    await wait(POLL_MS)
    // The bank may have refused the other call, and the reference be free again. The claim counts
    // from now on, or it would run out while this call is at the bank.
    if (stored === undefined) {
      reserved = await steps.reserve({ ...row, claimedUntilMs: clock.now() + CLAIM_MS })
    }
  }
  return ask({ account: row, attempt: 1, before: 'FREE' })
}

function newReservation(
  { clock, encrypter }: Steps,
  request: CreateAccount,
  detailsHash: Buffer,
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
    claimedUntilMs: nowMs + CLAIM_MS,
    createdAtMs: nowMs,
  }
}

async function openForCaller({ openAtBank }: Steps, asking: Asking): Promise<Created> {
  const end = await openAtBank(asking)
  if (end.kind === 'opened') return { account: end.account, replayed: false }
  if (end.kind === 'rejected') throw invalidFields(end.fields)
  throw end.state === 'PERSON' ? needsPerson(end.cause) : bankUnavailable(end.cause)
}

function bankUnavailable(cause: string): Fault {
  return new Fault('bank_unavailable', 'The bank did not answer; repeat the request', {
    retryAfterSeconds: RETRY_AFTER_SECONDS,
    cause,
  })
}

function needsPerson(cause: string): Fault {
  return new Fault('bank_unavailable', 'The bank gave no clear answer; it is being looked into', {
    retryAfterSeconds: RETRY_AFTER_PERSON_SECONDS,
    cause,
  })
}
