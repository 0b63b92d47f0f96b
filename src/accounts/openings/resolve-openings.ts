import type { Pool } from 'pg'
import type { Logger } from 'pino'
import type { BankCode, NamedConnector } from '../../banks/bank.ts'
import type { Clock } from '../../core/clock.ts'
import { createLoop, type Loop } from '../../core/loop.ts'
import { withTimeout } from '../../core/with-timeout.ts'
import type { Encrypter } from '../../crypto/encryption.ts'
import { identityContext } from '../account.ts'
import { claimMs, type OpenAtBank, type OpeningOutcome } from './open-at-bank.ts'
import { claimDue, type DueOpening } from './opening-store.ts'

/** How many openings one turn claims; all run at once. */
const OPENINGS_MAX = 8

const IDLE_MS = 1_000

/** Of calls of the sandbox. */
const CALL_TIMEOUT_MS_MIN = 10_000

interface Options {
  readonly pool: Pool
  readonly openAtBank: OpenAtBank
  readonly encrypter: Encrypter
  readonly clock: Clock
  readonly log: Logger
  /** The live banks, with how long a call of each may take. */
  readonly live: ReadonlyMap<BankCode, Pick<NamedConnector, 'callTimeoutMs'>>
  readonly aliasOf: (businessId: string) => Promise<string>
}

/** Retries openings without a clear result, if the bank allows it, until they have one. */
export function createResolveOpenings(options: Options): Loop {
  const { pool, clock, log, live } = options
  const timeoutsMs = [...live.values()].map(({ callTimeoutMs }) => callTimeoutMs)
  // One statement claims openings at all banks, so for as long as the slowest bank may take.
  const claimedMs = claimMs({ callTimeoutMs: Math.max(CALL_TIMEOUT_MS_MIN, ...timeoutsMs) })
  return createLoop({
    name: 'account openings',
    log,
    async turn() {
      const nowMs = clock.now()
      const due = await claimDue(pool, nowMs, nowMs + claimedMs, OPENINGS_MAX)
      await Promise.all(due.map((opening) => retryOpening(options, opening)))
      return due.length === OPENINGS_MAX ? 0 : IDLE_MS
    },
  })
}

/** A failed retry is due again when its claim expires. */
async function retryOpening(
  { openAtBank, encrypter, log, aliasOf }: Options,
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
const STORE_MS = 2_000

/** An opening goes on when its caller has stopped waiting, so a service that stops waits for it. */
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
    ended: async () => void (await withTimeout(Promise.allSettled([...inProgress]), STORE_MS)),
  }
}
