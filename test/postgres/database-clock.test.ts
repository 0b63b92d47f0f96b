import { expect, onTestFinished, test } from 'vitest'
import { HOUR_MS } from '../../src/core/durations.ts'
import { createDatabaseClock } from '../../src/postgres/database-clock.ts'
import { captureLog } from '../support/captured-log.ts'
import { useDatabase } from '../support/database.ts'
import { waitFor } from '../support/wait-for.ts'

/** The database of the tests is on this machine, so their clocks agree within this. */
const BOUND_MS = 2_000

/** A slow round trip may have been in one direction, so an hour is measured within some seconds. */
const differenceOf = (side: string) =>
  new RegExp(`^this machine's clock is (359\\d|360\\d)(\\.\\d)? s ${side} the database's`)
const AHEAD = differenceOf('ahead of')
const BEHIND = differenceOf('behind')

const db = useDatabase(2)

function startClock(shift: { ms: number }) {
  const { log, lines } = captureLog()
  let measurements = 0
  const clock = createDatabaseClock({
    durablePool: {
      query: (async (text: string) => {
        measurements += 1
        return db.database.durablePool.query(text)
      }) as never,
    },
    clock: { now: () => Date.now() + shift.ms },
    log,
    everyMs: 5,
  })
  onTestFinished(clock.stop)
  const measured = (more: number) => {
    const from = measurements
    return waitFor(() => expect(measurements).toBeGreaterThan(from + more))
  }
  return { clock, measured, messages: () => lines.map(({ msg }) => msg) }
}

const errorOf = (clock: { now(): number }) => Math.abs(clock.now() - Date.now())

test('shows the time of the database, and logs each change of the difference once', async () => {
  const shift = { ms: HOUR_MS }
  const { clock, measured, messages } = startClock(shift)
  await clock.start()
  // A slow measurement is off by half of what it took.
  await waitFor(() => {
    expect(errorOf(clock)).toBeLessThan(BOUND_MS)
    expect(clock.offsetMs()).toBeGreaterThan(HOUR_MS - BOUND_MS)
    expect(clock.note()).toMatch(AHEAD)
    expect(errorOf(clock.safe)).toBeLessThan(BOUND_MS)
  })
  await measured(5)
  const differs = 'the clock differs from the database’s: use NTP'
  expect(messages()).toEqual([differs])

  shift.ms = -HOUR_MS
  await waitFor(() => expect(clock.note()).toMatch(BEHIND))
  await waitFor(() => {
    expect(errorOf(clock)).toBeLessThan(BOUND_MS)
    // What cannot be undone waits for the clock that is behind.
    expect(Math.abs(clock.safe.now() - (Date.now() - HOUR_MS))).toBeLessThan(BOUND_MS)
  })

  shift.ms = 0
  await waitFor(() => expect(clock.note()).toBeUndefined())
  await measured(5)
  const again = 'the clock agrees with the database’s again'
  expect(messages()).toEqual([differs, differs, again])
})
