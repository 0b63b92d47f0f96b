import { setTimeout as wait } from 'node:timers/promises'
import type { Pool } from 'pg'
import type { Logger } from 'pino'
import type { AccountResult } from '../banks/bank.ts'
import { plainText } from '../banks/plain-text.ts'
import type { Clock } from '../core/clock.ts'
import { newId } from '../core/ids.ts'
import { createBatcher } from '../postgres/batcher.ts'
import { type AccountOnOrder, isOpened, type OpenAccount } from './account.ts'
import { encodeAccountEvent } from './message.ts'
import { type Opening, openPending } from './opening-store.ts'
import { findById } from './store.ts'

/** Waits before writing down once more what the bank has opened, within the claim. */
const WAITS_MS = [100, 400, 1_600]

const TEXT_CHARACTERS_MAX = 200

/** What became of an opening that a bank has made. */
type Stored =
  | { readonly kind: 'opened'; readonly account: OpenAccount }
  /** The number is another account's. */
  | { readonly kind: 'taken' }

type StoreOpening = (
  account: AccountOnOrder,
  result: Extract<AccountResult, { kind: 'opened' }>,
) => Promise<Stored>

interface Dependencies {
  readonly pool: Pool
  readonly clock: Clock
  readonly log: Logger
  readonly onCommit: () => void
}

type Written = 'opened' | 'not pending' | 'taken'

/** Openings that come in while others are being written share the next statement. */
export function createStoreOpening(dependencies: Dependencies): StoreOpening {
  const { pool, clock, log, onCommit } = dependencies
  const write = createBatcher<Opening, Written>({
    run: async (openings) => {
      const written = await writeOpenings(pool, openings)
      onCommit()
      return written
    },
    itemsMax: 64,
    batchesMax: 2,
    queueMax: 10_000,
  })
  return async (ordered, result) => {
    const accountName = plainText(result.accountName, TEXT_CHARACTERS_MAX)
    const account = openAccount(ordered, result.accountNumber, accountName)
    const opening = newOpening(account, result.bankAccountId, clock.now())
    const { bank, reference, accountNumber } = account
    const written = await insist(() => write(opening)).catch((error: unknown) => {
      // A person can resolve it with what this line says.
      const text = 'a bank opened an account that could not be written down'
      log.error({ err: error, bank, reference, accountNumber }, text)
      throw error
    })
    if (written === 'opened') return { kind: 'opened', account }
    if (written === 'taken') return { kind: 'taken' }
    const stored = await findById(pool, account.id)
    if (stored && isOpened(stored) && stored.accountNumber === accountNumber) {
      return { kind: 'opened', account: stored }
    }
    // A call that slept past its claim: another one had the bank meanwhile, and another result.
    log.error({ bank, reference, accountNumber }, 'a bank opened a second account for a reference')
    throw new Error(`${reference} was resolved otherwise, and the bank opened ${accountNumber}`)
  }
}

/** The account as it is now open: of what was ordered, that alone which an open account has. */
export function openAccount(
  ordered: AccountOnOrder,
  accountNumber: string,
  accountName: string,
): OpenAccount {
  return {
    id: ordered.id,
    businessId: ordered.businessId,
    live: ordered.live,
    reference: ordered.reference,
    merchantReference: ordered.merchantReference,
    bank: ordered.bank,
    accountNumber,
    accountName,
    status: 'ACTIVE',
    firstName: ordered.firstName,
    lastName: ordered.lastName,
    email: ordered.email,
    phone: ordered.phone,
    createdAtMs: ordered.createdAtMs,
  }
}

/** @param bankAccountId as the bank gave it */
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

/** One number that is taken must not fail its neighbours: then each is written by itself. */
async function writeOpenings(pool: Pool, openings: readonly Opening[]): Promise<Written[]> {
  try {
    const opened = await openPending(pool, openings)
    return openings.map(({ id }) => (opened.has(id) ? 'opened' : 'not pending'))
  } catch (error) {
    if (!isNumberTaken(error)) throw error
    if (openings.length === 1) return ['taken']
    const written: Written[] = []
    for (const opening of openings) written.push(...(await writeOpenings(pool, [opening])))
    return written
  }
}

/** Whether a statement failed because an account number is another account's. */
export function isNumberTaken(error: unknown): boolean {
  const { code, constraint } = error as { readonly code?: string; readonly constraint?: string }
  return code === '23505' && constraint === 'account_account_number_bank_live_unique'
}

/** The database may be away for a moment, and what the bank said is not to be had again. */
async function insist<T>(step: () => Promise<T>): Promise<T> {
  for (const waitMs of WAITS_MS) {
    try {
      return await step()
    } catch {
      await wait(waitMs)
    }
  }
  return step()
}
