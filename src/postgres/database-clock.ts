import type { Pool } from 'pg'
import type { Logger } from 'pino'
import type { Clock } from '../core/clock.ts'
import { createLoop } from '../core/loop.ts'
import { epochMs } from './epoch-ms.ts'

/** A clock that shows the time of the database, which all instances share. */
export interface DatabaseClock extends Clock {
  /** How far this machine's clock is ahead of the database's, as last measured; milliseconds. */
  offsetMs(): number
  /** What an operator should know; undefined: the clocks agree. */
  note(): string | undefined
  /** Measures once, then regularly. */
  start(): Promise<void>
  stop(): Promise<void>
}

interface Options {
  readonly durablePool: Pick<Pool, 'query'>
  /** The clock of this machine. */
  readonly clock: Clock
  readonly log: Logger
  readonly everyMs?: number | undefined
}

const EVERY_MS = 10_000

/** A difference that is logged: receivers of webhooks, banks and certificates may refuse more. */
const NOTICE_MS = 5_000

/** A smaller change is noise of the measurement, so the time does not jump between measurements. */
const NOISE_MS = 100

const TIME = `select ${epochMs('clock_timestamp()')}::float8 as ms`

export function createDatabaseClock(options: Options): DatabaseClock {
  const { durablePool, clock, log, everyMs = EVERY_MS } = options
  /** What `now` subtracts. */
  let correctionMs = 0
  let offsetMs = 0
  /** The difference of the latest line in the log; 0: it stated none. */
  let loggedMs = 0

  const measure = async (): Promise<undefined> => {
    const startedMs = performance.now()
    const { rows } = await durablePool.query<{ ms: number }>(TIME)
    const halfMs = (performance.now() - startedMs) / 2
    // The whole round trip may have been in one direction.
    const noiseMs = NOISE_MS + halfMs
    offsetMs = clock.now() - halfMs - (rows[0] as { ms: number }).ms
    if (Math.abs(offsetMs - correctionMs) > noiseMs) correctionMs = offsetMs
    report(Math.abs(correctionMs) > NOTICE_MS)
  }
  const report = (differs: boolean): void => {
    const changed = Math.abs(correctionMs - loggedMs) > NOTICE_MS
    if (differs && changed) {
      loggedMs = correctionMs
      const offset = { offsetSeconds: seconds(correctionMs), found: text(correctionMs) }
      log.warn(offset, 'the clock differs from the database’s: use NTP')
    } else if (!differs && loggedMs !== 0) {
      loggedMs = 0
      log.info('the clock agrees with the database’s again')
    }
  }
  const loop = createLoop({ name: 'database clock', log, everyMs, turn: measure })
  return {
    now: () => Math.round(clock.now() - correctionMs),
    offsetMs: () => offsetMs,
    note: () => (loggedMs === 0 ? undefined : text(correctionMs)),
    async start() {
      await measure()
      loop.start(everyMs)
    },
    stop: loop.stop,
  }
}

function text(offsetMs: number): string {
  const side = offsetMs > 0 ? 'ahead of' : 'behind'
  return `this machine's clock is ${Math.abs(seconds(offsetMs))} s ${side} the database's`
}

function seconds(ms: number): number {
  return Math.round(ms / 100) / 10
}
