import type { Pool } from 'pg'
import type { Logger } from 'pino'
import type { Clock } from '../core/clock.ts'
import { createLoop } from '../core/loop.ts'

interface Options {
  readonly durablePool: Pick<Pool, 'query'>
  /** The clock of this machine. */
  readonly clock: Clock
  readonly log: Logger
  readonly everyMs?: number | undefined
}

const EVERY_MS = 10_000

/** Larger differences are logged: webhook receivers, banks and TLS may reject timestamps that differ more. */
const NOTICE_MS = 5_000

/** Smaller changes are measurement noise, and are ignored so that the time does not jump. */
const NOISE_MS = 100

const TIME = `select round(date_part('epoch', clock_timestamp()) * 1000)::float8 as ms`

/** Creates a clock that shows the time of the database, which all instances share. */
export function createDatabaseClock(options: Options) {
  const { durablePool, clock, log, everyMs = EVERY_MS } = options
  /** The correction that `now` subtracts. */
  let correctionMs = 0
  let offsetMs = 0
  /** The difference in the latest log line; 0: the clocks agreed. */
  let loggedMs = 0

  const measure = async (): Promise<undefined> => {
    const startedMs = performance.now()
    const { rows } = await durablePool.query<{ ms: number }>(TIME)
    const halfMs = (performance.now() - startedMs) / 2
    // The error of the measurement is at most half of the round trip.
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
  const now = () => Math.round(clock.now() - correctionMs)
  return {
    now,
    /**
     * The earlier of the database's time and this machine's. After a failover to a server whose clock is ahead, what cannot
     * be undone, such as retention, waits for the machine's clock.
     */
    safe: { now: () => Math.min(now(), clock.now()) },
    /** How far this machine's clock was ahead of the database's at the last measurement, in milliseconds. */
    offsetMs: () => offsetMs,
    /** A warning for operators; undefined: the clocks agree. */
    note: () => (loggedMs === 0 ? undefined : text(correctionMs)),
    /** Measures once, and then at regular intervals. */
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
