import type { Pool } from 'pg'
import type { Logger } from 'pino'
import type { AccountOrder, AccountResult, BankConnector, BankOf } from '../banks/bank.ts'
import { plainText } from '../banks/plain-text.ts'
import type { Clock } from '../core/clock.ts'
import type { FieldFault } from '../core/errors.ts'
import { type AccountOnOrder, accountNameOf, type OpenAccount } from './account.ts'
import {
  type OpeningBefore,
  type OpeningState,
  stateOf,
  type Unopened,
  unopened,
} from './opening.ts'
import { deletePending, keepUnopened } from './opening-store.ts'
import { createStoreOpening } from './store-opening.ts'

/** How long a bank may take to open an account, or to say what became of it. */
const BANK_TIMEOUT_MS = 10_000

/** How long one call has the bank to itself: longer than the bank may take. */
export const CLAIM_MS = 15_000

const CAUSE_CHARACTERS_MAX = 500

/** A pending account that this call has to itself. */
export interface Asking {
  readonly account: AccountOnOrder
  readonly idType: AccountOrder['idType']
  readonly idNumber: AccountOrder['idNumber']
  /** What the business's account names begin with. */
  readonly alias: string
  readonly attempt: number
  /** What is known of earlier attempts; `ASKING`: the latest one died. */
  readonly before: OpeningState
  /** Whether somebody wants the account now, should the bank say that it has opened none. */
  readonly wanted: boolean
}

/** How an attempt ended. */
export type OpeningEnd =
  | { readonly kind: 'opened'; readonly account: OpenAccount }
  | { readonly kind: 'rejected'; readonly fields: readonly FieldFault[] }
  | ({ readonly kind: 'unopened' } & Unopened)

export type OpenAtBank = (asking: Asking) => Promise<OpeningEnd>

interface Dependencies {
  readonly pool: Pool
  readonly bankOf: BankOf
  readonly clock: Clock
  readonly log: Logger
  /** Called after a commit that added events. */
  readonly onCommit: () => void
}

/**
 * Makes one attempt at a bank, in the way in which that is safe after what happened before, and
 * writes down how it ended. Rejects for faults of ours alone; the attempt is then one that died.
 */
export function createOpenAtBank(dependencies: Dependencies): OpenAtBank {
  const { pool, bankOf, clock, log } = dependencies
  const storeOpening = createStoreOpening(dependencies)
  const keep = async ({ account, attempt }: Asking, end: Unopened): Promise<OpeningEnd> => {
    const cause = plainText(end.cause, CAUSE_CHARACTERS_MAX)
    await keepUnopened(pool, account.id, attempt, { ...end, cause }, clock.now())
    if (end.state === 'PERSON') {
      const { bank, reference } = account
      log.warn({ bank, reference, cause }, 'an account needs a person: inflow account resolve')
    }
    return { kind: 'unopened', ...end, cause }
  }
  const person = (asking: Asking, cause: string) =>
    keep(asking, { state: 'PERSON', cause, nextTryAtMs: undefined })
  return async (asking) => {
    const { account, attempt } = asking
    const connector = bankOf(account)
    const before = asking.before === 'ASKING' ? stateOf(connector.afterCrash) : asking.before
    if (before === 'PERSON') return person(asking, 'the process that asked the bank died')
    const { result, defect } = await ask(connector, asking, before)
    if (defect !== undefined) {
      const { bank, reference } = account
      log.error({ err: defect, bank, reference }, 'asking a bank for an account failed')
    }
    if (result.kind === 'rejected') {
      await deletePending(pool, account.id, attempt)
      return result
    }
    if (result.kind !== 'opened') {
      // AttemptRunner that are known to have opened nothing are not held against this one.
      const unclear = before === 'FREE' ? 1 : attempt
      return keep(asking, unopened(result, unclear, clock.now()))
    }
    if (!/^\d{10}$/.test(result.accountNumber)) {
      const number = plainText(result.accountNumber, 40)
      return person(asking, `the bank opened an account with the number "${number}"`)
    }
    const stored = await storeOpening(account, result)
    if (stored.kind === 'opened') return stored
    return person(asking, `the bank opened ${result.accountNumber}, which is another account here`)
  }
}

interface Answered {
  readonly result: AccountResult
  /** A defect of the connector; what the bank did is then not known. */
  readonly defect?: unknown
}

async function ask(
  connector: BankConnector,
  asking: Asking,
  before: OpeningBefore,
): Promise<Answered> {
  const signal = AbortSignal.timeout(BANK_TIMEOUT_MS)
  const order = orderOf(asking, before)
  try {
    if (before === 'QUERY') {
      const found = await findOpened(connector, order, signal)
      if (found.kind !== 'unavailable' || !asking.wanted) return { result: found }
    }
    const result = await connector.openAccount(order, signal)
    // That this attempt opened nothing does not say so of the one before.
    if (before === 'REPEAT' && result.kind === 'unavailable') {
      return { result: { kind: 'unknown', cause: result.cause, next: 'retry' } }
    }
    return { result }
  } catch (error) {
    const next = connector.afterCrash
    if (signal.aborted) {
      const cause = `no answer in ${BANK_TIMEOUT_MS} ms`
      return { result: { kind: 'unknown', cause, next } }
    }
    return { result: { kind: 'unknown', cause: 'a fault of this service', next }, defect: error }
  }
}

function findOpened(
  { findOpened }: BankConnector,
  order: AccountOrder,
  signal: AbortSignal,
): Promise<AccountResult> {
  if (findOpened) return findOpened(order, signal)
  const cause = 'the bank cannot be asked what became of it'
  return Promise.resolve({ kind: 'unknown', cause, next: 'manual review' })
}

function orderOf(
  { account, idType, idNumber, alias, attempt }: Asking,
  before: OpeningBefore,
): AccountOrder {
  const { bank, reference, firstName, lastName, email, phone } = account
  return {
    bank,
    reference,
    accountName: accountNameOf(alias, firstName, lastName),
    firstName,
    lastName,
    email,
    phone,
    idType,
    idNumber,
    attempt,
    repeated: before !== 'FREE',
  }
}
