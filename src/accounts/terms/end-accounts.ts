import type { Pool } from 'pg'
import type { Logger } from 'pino'
import type { BankOf } from '../../banks/bank.ts'
import { afterCommit } from '../../core/after-commit.ts'
import type { Clock } from '../../core/clock.ts'
import { newId } from '../../core/ids.ts'
import { createLoop, type Loop } from '../../core/loop.ts'
import { inTransaction } from '../../postgres/in-transaction.ts'
import type { OpenAccount, StoredAccount } from '../account.ts'
import { closeAtBank } from '../close-at-bank.ts'
import { encodeAccountEvent } from '../message.ts'
import { claimEnded, endAccounts, lockEnding, storeEndDue } from './end-store.ts'

/** How many accounts one transaction ends. */
const ENDED_MAX = 100

/** How many accounts one turn closes at their banks; all at once. */
const CLOSED_MAX = 8

/** How long a claim lasts: longer than a bank may take. */
const CLAIM_MS = 30_000

/** The first wait after a bank did not close an account. From then on, as long as since the account ended. */
const RETRY_MIN_MS = 30_000

/** How long an ended account is closed at its bank, and its payments are listed: banks report some late. */
const LISTED_MS = 3 * 86_400_000

const IDLE_MS = 1_000

interface Options {
  readonly pool: Pool
  readonly bankOf: BankOf
  readonly clock: Clock
  readonly log: Logger
  /** Called after a commit that added events. */
  readonly onCommit: () => void
}

/**
 * Ends one-time accounts that have expired or are used up, then closes them at their banks. An account ends here
 * whether or not its bank can be reached, since the business waits for the event.
 */
export function createEndAccounts(options: Options): Loop {
  return createLoop({
    name: 'one-time accounts',
    log: options.log,
    async turn() {
      const ended = await endDueAccounts(options)
      const closed = await closeEndedAccounts(options)
      return ended === ENDED_MAX || closed === CLOSED_MAX ? 0 : IDLE_MS
    },
  })
}

/** @returns how many accounts ended */
async function endDueAccounts({ pool, clock, log, onCommit }: Options): Promise<number> {
  const nowMs = clock.now()
  const ended = await inTransaction(pool, async (client) => {
    const accounts = await lockEnding(client, nowMs, ENDED_MAX)
    const events = accounts.map((account) => {
      const eventId = newId('evt', nowMs)
      return {
        accountId: account.id,
        eventId,
        payload: encodeAccountEvent('ACCOUNT_EXPIRED', toEnded(account, nowMs), eventId, nowMs),
      }
    })
    if (events.length > 0) await endAccounts(client, events, nowMs)
    return events.length
  })
  if (ended > 0) afterCommit(log, onCommit)
  return ended
}

/** Without what only a pending account has. */
function toEnded(account: OpenAccount, nowMs: number): OpenAccount {
  const terms = account.terms && { ...account.terms, endedAtMs: nowMs }
  return { ...account, status: 'EXPIRED', terms }
}

/** @returns how many accounts were due */
async function closeEndedAccounts(options: Options): Promise<number> {
  const { pool, clock } = options
  const nowMs = clock.now()
  const accounts = await claimEnded(pool, nowMs, nowMs + CLAIM_MS, CLOSED_MAX)
  await Promise.all(accounts.map((account) => closeEnded(options, account, nowMs)))
  return accounts.length
}

async function closeEnded(
  { pool, bankOf, log }: Options,
  account: StoredAccount & OpenAccount,
  nowMs: number,
): Promise<void> {
  const { id, bank, reference } = account
  const endedAtMs = account.terms?.endedAtMs ?? 0
  const listedUntilMs = endedAtMs + LISTED_MS
  if (nowMs >= listedUntilMs) return storeEndDue(pool, id, undefined)
  const result = await closeAtBank(bankOf, account)
  if (result.kind === 'closed') return storeEndDue(pool, id, listedUntilMs)
  const { cause } = result
  const retryAtMs = nowMs + Math.max(RETRY_MIN_MS, nowMs - endedAtMs)
  const line = { bank, reference, cause, retryAt: new Date(retryAtMs).toISOString() }
  if (retryAtMs < listedUntilMs) log.info(line, 'the bank did not close an expired account yet')
  else log.warn({ bank, reference, cause }, 'the bank did not close an expired account')
  return storeEndDue(pool, id, Math.min(retryAtMs, listedUntilMs))
}
