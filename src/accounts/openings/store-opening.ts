import { setTimeout as wait } from 'node:timers/promises'
import type { Pool } from 'pg'
import type { Logger } from 'pino'
import type { AccountResult } from '../../banks/bank.ts'
import { plainText } from '../../banks/plain-text.ts'
import type { Clock } from '../../core/clock.ts'
import { newId } from '../../core/ids.ts'
import { createBatcher } from '../../postgres/batcher.ts'
import { isOpened, type OpenAccount, type RequestedAccount } from '../account.ts'
import { encodeAccountEvent } from '../message.ts'
import { findById } from '../store.ts'
import { type Opening, openPending } from './opening-store.ts'

/** Delays before storing an opened account is retried; together shorter than the claim. */
const RETRY_DELAYS_MS = [100, 400, 1_600]

const TEXT_CHARACTERS_MAX = 200

/** The result of storing an account that a bank has opened. */
type Stored =
  | { readonly kind: 'opened'; readonly account: OpenAccount }
  /** The number belongs to another account. */
  | { readonly kind: 'taken' }

type StoreOpening = (
  account: RequestedAccount,
  result: Extract<AccountResult, { kind: 'opened' }>,
) => Promise<Stored>

interface Dependencies {
  readonly pool: Pool
  readonly clock: Clock
  readonly log: Logger
  readonly onCommit: () => void
}

type SaveResult = 'opened' | 'not pending' | 'taken'

/** Openings that arrive while a batch is being stored share the next statement. */
export function createStoreOpening(dependencies: Dependencies): StoreOpening {
  const { pool, clock, log, onCommit } = dependencies
  const save = createBatcher<Opening, SaveResult>({
    run: async (openings) => {
      const results = await saveOpenings(pool, openings)
      onCommit()
      return results
    },
    itemsMax: 64,
    batchesMax: 2,
    queueMax: 10_000,
  })
  return async (requested, result) => {
    const accountName = plainText(result.accountName, TEXT_CHARACTERS_MAX)
    const account = openAccount(requested, result.accountNumber, accountName)
    const opening = newOpening(account, result.bankAccountId, clock.now())
    const { bank, reference, accountNumber } = account
    const saved = await withRetries(() => save(opening)).catch((error: unknown) => {
      // An operator can resolve the account with the values in this log line.
      const text = 'a bank opened an account that could not be stored'
      log.error({ err: error, bank, reference, accountNumber }, text)
      throw error
    })
    if (saved === 'opened') {
      const { id, businessId, live } = account
      log.info({ account: id, business_id: businessId, live, bank, reference }, 'account opened')
      return { kind: 'opened', account }
    }
    if (saved === 'taken') return { kind: 'taken' }
    const stored = await findById(pool, account.id)
    if (stored && isOpened(stored) && stored.accountNumber === accountNumber) {
      return { kind: 'opened', account: stored }
    }
    // This call outlived its claim: another call asked the bank meanwhile and had another result.
    log.error({ bank, reference, accountNumber }, 'a bank opened a second account for a reference')
    throw new Error(
      `${reference} was resolved by another call, but the bank opened ${accountNumber}`,
    )
  }
}

/** The ACTIVE account, without the fields that only a pending account has. */
export function openAccount(
  requested: RequestedAccount,
  accountNumber: string,
  accountName: string,
): OpenAccount {
  return {
    id: requested.id,
    businessId: requested.businessId,
    live: requested.live,
    reference: requested.reference,
    merchantReference: requested.merchantReference,
    bank: requested.bank,
    connector: requested.connector,
    accountNumber,
    accountName,
    status: 'ACTIVE',
    firstName: requested.firstName,
    lastName: requested.lastName,
    email: requested.email,
    phone: requested.phone,
    createdAtMs: requested.createdAtMs,
    terms: requested.terms,
    metadata: requested.metadata,
    importedAtMs: undefined,
  }
}

/** @param bankAccountId as the bank returned it */
export function newOpening(account: OpenAccount, bankAccountId: string, nowMs: number): Opening {
  const eventId = newId('evt', nowMs)
  return {
    id: account.id,
    accountNumber: account.accountNumber,
    accountName: account.accountName,
    bankAccountId: plainText(bankAccountId, TEXT_CHARACTERS_MAX),
    eventId,
    occurredAtMs: nowMs,
    payload: encodeAccountEvent('ACCOUNT_CREATED', account, eventId, nowMs),
  }
}

/** A taken number must not fail the whole batch: then each opening is stored by itself. */
async function saveOpenings(pool: Pool, openings: readonly Opening[]): Promise<SaveResult[]> {
  try {
    const opened = await openPending(pool, openings)
    return openings.map(({ id }) => (opened.has(id) ? 'opened' : 'not pending'))
  } catch (error) {
    if (!isNumberTaken(error)) throw error
    if (openings.length === 1) return ['taken']
    const results: SaveResult[] = []
    for (const opening of openings) results.push(...(await saveOpenings(pool, [opening])))
    return results
  }
}

/** Whether a statement failed because the account number belongs to another account. */
export function isNumberTaken(error: unknown): boolean {
  const { code, constraint } = error as { readonly code?: string; readonly constraint?: string }
  return code === '23505' && constraint === 'account_account_number_bank_live_unique'
}

/** The database may be briefly unavailable, and the bank does not repeat its response. */
async function withRetries<T>(operation: () => Promise<T>): Promise<T> {
  for (const delayMs of RETRY_DELAYS_MS) {
    try {
      return await operation()
    } catch {
      await wait(delayMs)
    }
  }
  return operation()
}
