import { setTimeout as sleep } from 'node:timers/promises'
import type { Pool } from 'pg'
import type { Logger } from 'pino'
import type { Clock } from '../clock.ts'
import { type AttemptSteps, createAttempts } from './attempts.ts'
import { claimDeliveries, walkPendingEndpoints } from './claim-deliveries.ts'
import { giveBack, giveUp } from './complete-attempts.ts'
import { createLoop, type Loop } from './loop.ts'
import { createPacing, type PacingLimits } from './pacing.ts'
import { createRotation } from './rotation.ts'
import { within } from './within.ts'

interface WorkerOptions {
  readonly pool: Pool
  readonly clock: Clock
  readonly log: Logger
  readonly limits: PacingLimits
  readonly leaseMs: number
  readonly steps: AttemptSteps
}

/** How many endpoints one turn looks at. */
const WALK_MAX = 256

/** Attempts under way and not written down yet, of all endpoints; no turn claims beyond it. */
const ATTEMPTS_MAX = 256

const IDLE_MS = 1_000
const DRAIN_MS = 5_000
const DRAIN_LOOK_MS = 20
const GIVE_BACK_MS = 2_000

/**
 * Claims due deliveries and attempts them. Endpoints take turns, and `pacing` says how much each
 * may take.
 */
export function createWorker(options: WorkerOptions): Loop {
  const { pool, clock, log, leaseMs } = options
  const pacing = createPacing(options.limits, () => performance.now())
  const rotation = createRotation(WALK_MAX)
  let nextDueAtMs = Number.POSITIVE_INFINITY
  let stopped = false

  const turn = async (): Promise<number> => {
    attempts.tellSlow()
    if (attempts.count() >= ATTEMPTS_MAX) return IDLE_MS
    const nowMs = clock.now()
    if (nextDueAtMs <= nowMs) nextDueAtMs = Number.POSITIVE_INFINITY
    const walked = await walkPendingEndpoints(pool, rotation.after(), nowMs, WALK_MAX)
    const allotments = pacing.allot(walked.filter(({ due }) => due))
    const last = allotments.at(-1)
    const { claims, lost } = last
      ? await claimDeliveries(pool, allotments, nowMs, leaseMs)
      : { claims: [], lost: [] }
    if (lost.length > 0) await giveUp(pool, lost, nowMs, 'the event was deleted for its age')
    // After a stop that did not wait for the statement, its leases run out by themselves.
    if (stopped) return IDLE_MS
    for (const claim of claims) attempts.start(claim)
    if (last && claims.length + lost.length > 0) {
      rotation.served(last.endpointId)
      return 0
    }
    if (rotation.unserved(walked.map(({ id }) => id))) return 0
    return Math.max(Math.min(nextDueAtMs - clock.now(), pacing.resumesInMs()), 0)
  }
  const drained = async (): Promise<void> => {
    await loop.stop()
    while (attempts.count() > 0 && !stopped) await sleep(DRAIN_LOOK_MS)
  }

  const loop = createLoop({ name: 'webhook worker', log, turn })
  const attempts = createAttempts({
    clock,
    pacing,
    steps: options.steps,
    onChange(dueAtMs) {
      if (dueAtMs !== undefined) nextDueAtMs = Math.min(nextDueAtMs, dueAtMs)
      loop.wake()
    },
  })
  return {
    start: loop.start,
    wake: loop.wake,
    async stop() {
      await within(drained(), DRAIN_MS)
      stopped = true
      const left = attempts.abandon()
      if (left.length === 0) return
      const given = giveBack(pool, left, clock.now()).catch((error: unknown) => {
        log.warn({ err: error, deliveries: left.length }, 'claims wait for the end of their lease')
      })
      await within(given, GIVE_BACK_MS)
    },
  }
}
