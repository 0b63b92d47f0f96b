import { setTimeout as wait } from 'node:timers/promises'
import type { Pool } from 'pg'
import type { AccountResult, BankConnector, Banks } from '../banks/bank.ts'
import type { Clock } from '../clock.ts'
import { assert, Fault, invalidFields } from '../errors.ts'
import { newId, newReference } from '../ids.ts'
import type { Sealer } from '../secrets.ts'
import { createBatcher } from '../store/batcher.ts'
import {
  type AccountDetails,
  accountNameOf,
  detailsText,
  identityContext,
  identityText,
  type OpenAccount,
  type StoredAccount,
} from './account.ts'
import { encodeAccountCreated } from './message.ts'
import {
  claimPending,
  deletePending,
  findByMerchantReference,
  insertReservations,
  type Opening,
  openPending,
  type Reservation,
  releaseClaim,
} from './store.ts'

/** How long a bank may take to open an account. */
const BANK_TIMEOUT_MS = 10_000

/** How long one call has the bank to itself: longer than the bank may take. */
const CLAIM_MS = 15_000

/** How long a repeat waits for the call that is at the bank: longer than that call has. */
const WAIT_MS = 20_000

const POLL_MS = 50

const RETRY_AFTER_SECONDS = 5

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
  /** Where live accounts are opened. */
  readonly banks: Banks
  /** Where test accounts are opened. */
  readonly sandbox: BankConnector
  readonly sealer: Sealer
  readonly clock: Clock
  /** What a business's account names begin with; throws Fault not_found. */
  readonly aliasOf: (businessId: string) => Promise<string>
  /** Called after a commit that added events. */
  readonly published: () => void
}

/**
 * Opens an account at a bank, once for each reference of a business in a mode, however often it is
 * asked for.
 *
 * The account is stored as PENDING before the bank is called, and whoever stored it has the bank to
 * itself for a while. A repeat waits for that call; when that call died, it takes over.
 *
 * Faults: not_found (the business), duplicate_reference, validation_failed (the bank found the
 * customer's details wrong), bank_unavailable (the account stays PENDING, a repeat goes on).
 */
export function createCreateAccount(dependencies: Dependencies): CreateAccountCall {
  const { pool, published } = dependencies
  const reserve = createBatcher<Reservation, boolean>({
    run: async (rows) => {
      const inserted = await insertReservations(pool, rows)
      return rows.map((row) => inserted.has(row.id))
    },
    itemsMax: 64,
    batchesMax: 2,
    queueMax: 10_000,
  })
  const open = createBatcher<Opening, boolean>({
    run: async (openings) => {
      const opened = await openPending(pool, openings)
      published()
      return openings.map((opening) => opened.has(opening.id))
    },
    itemsMax: 64,
    batchesMax: 2,
    queueMax: 10_000,
  })
  const steps = { ...dependencies, reserve, open }
  const underWay = new Map<string, Promise<Created>>()
  return async (request) => {
    const detailsHash = dependencies.sealer.fingerprint(detailsText(request))
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
  readonly open: (opening: Opening) => Promise<boolean>
}

async function createOnce(
  steps: Steps,
  request: CreateAccount,
  detailsHash: Buffer,
): Promise<Created> {
  const { businessId, live, reference } = request
  const alias = await steps.aliasOf(businessId)
  const row = newReservation(steps, request, detailsHash)
  const untilMs = steps.clock.now() + WAIT_MS
  let reserved = await steps.reserve(row)
  while (!reserved) {
    const nowMs = steps.clock.now()
    const stored = await findByMerchantReference(steps.pool, businessId, live, reference)
    if (stored !== undefined) {
      if (!steps.sealer.matches(detailsText(request), stored.detailsHash)) {
        throw new Fault('duplicate_reference', 'The reference was used before with other details')
      }
      if (isOpen(stored)) return { account: stored, replayed: true }
      const attempt = await claimPending(steps.pool, stored.id, nowMs, nowMs + CLAIM_MS)
      if (attempt !== undefined) {
        return {
          account: await openAtBank(steps, request, stored, alias, attempt),
          replayed: false,
        }
      }
    }
    if (nowMs > untilMs) throw bankUnavailable('another call is at the bank')
    await wait(POLL_MS)
    // The bank may have refused the other call, and the reference be free again. The claim counts
    // from now on, or it would run out while this call is at the bank.
    if (stored === undefined) {
      reserved = await steps.reserve({ ...row, claimedUntilMs: steps.clock.now() + CLAIM_MS })
    }
  }
  return { account: await openAtBank(steps, request, row, alias, 1), replayed: false }
}

function newReservation(
  { clock, sealer }: Steps,
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
    idNumberSealed: request.idNumber ? sealer.seal(request.idNumber, identityContext(id)) : null,
    idNumberHash: request.idNumber
      ? sealer.fingerprint(identityText(request.idType, request.idNumber))
      : null,
    detailsHash,
    claimedUntilMs: nowMs + CLAIM_MS,
    createdAtMs: nowMs,
  }
}

function isOpen(account: StoredAccount): account is StoredAccount & OpenAccount {
  return account.status !== 'PENDING'
}

async function openAtBank(
  steps: Steps,
  request: CreateAccount,
  row: Reservation | StoredAccount,
  alias: string,
  attempt: number,
): Promise<OpenAccount> {
  const result = await askBank(steps, request, row, alias, attempt)
  if (result.kind === 'rejected') {
    await deletePending(steps.pool, row.id)
    throw invalidFields(result.fields)
  }
  if (result.kind === 'unavailable') {
    await releaseClaim(steps.pool, row.id, steps.clock.now())
    throw bankUnavailable(result.cause)
  }
  const account: OpenAccount = {
    id: row.id,
    businessId: request.businessId,
    live: request.live,
    reference: row.reference,
    merchantReference: request.reference,
    bank: request.bank,
    accountNumber: result.accountNumber,
    accountName: result.accountName,
    status: 'ACTIVE',
    firstName: request.firstName,
    lastName: request.lastName,
    email: request.email,
    phone: request.phone,
    createdAtMs: row.createdAtMs,
  }
  const occurredAtMs = steps.clock.now()
  const eventId = newId('evt', occurredAtMs)
  const payload = encodeAccountCreated(account, eventId, occurredAtMs)
  const { id, accountNumber, accountName } = account
  const opening = { id, accountNumber, accountName, eventId, occurredAtMs, payload }
  assert(
    await steps.open(opening),
    'the claim outlasts the bank, so nobody else opened the account',
  )
  return account
}

async function askBank(
  steps: Steps,
  request: CreateAccount,
  row: Reservation | StoredAccount,
  alias: string,
  attempt: number,
): Promise<AccountResult> {
  const accountName = accountNameOf(alias, request.firstName, request.lastName)
  const order = { ...request, reference: row.reference, accountName, attempt }
  const signal = AbortSignal.timeout(BANK_TIMEOUT_MS)
  try {
    const bank = request.live ? steps.banks[request.bank] : steps.sandbox
    return await bank.openAccount(order, signal)
  } catch (error) {
    if (signal.aborted) return { kind: 'unavailable', cause: `no answer in ${BANK_TIMEOUT_MS} ms` }
    await releaseClaim(steps.pool, row.id, steps.clock.now())
    throw error
  }
}

function bankUnavailable(cause: string): Fault {
  return new Fault('bank_unavailable', 'The bank did not answer; repeat the request', {
    retryAfterSeconds: RETRY_AFTER_SECONDS,
    cause,
  })
}
