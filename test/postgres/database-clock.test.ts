import pino from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { createDatabaseClock } from '../../src/postgres/database-clock.ts'
import { useDatabase } from '../support/database.ts'
import { waitFor } from '../support/wait-for.ts'

const HOUR_MS = 3_600_000

/** The database of the tests is on this machine, so their clocks agree within this. */
const BOUND_MS = 2_000

/** A slow round trip may have been in one direction, so an hour is measured within some seconds. */
const differenceOf = (side: string) =>
  new RegExp(`^this machine's clock is (359\\d|360\\d)(\\.\\d)? s ${side} the database's`)
const AHEAD = differenceOf('ahead of')
const BEHIND = differenceOf('behind')

const db = useDatabase(2)

function startClock(shift: { ms: number }) {
  const lines: string[] = []
  let measurements = 0
  const clock = createDatabaseClock({
    durablePool: {
      query: (async (text: string) => {
        measurements += 1
        return db.database.durablePool.query(text)
      }) as never,
    },
    clock: { now: () => Date.now() + shift.ms },
    log: pino({ level: 'info' }, { write: (line: string) => void lines.push(line) }),
    everyMs: 5,
  })
  onTestFinished(clock.stop)
  const measured = (more: number) => {
    const from = measurements
    return waitFor(() => expect(measurements).toBeGreaterThan(from + more))
  }
  return { clock, measured, messages: () => lines.map((line) => JSON.parse(line).msg) }
}

const errorOf = (clock: { now(): number }) => Math.abs(clock.now() - Date.now())

test('shows the time of the database, and logs each change of the difference once', async () => {
  const shift = { ms: HOUR_MS }
  const { clock, measured, messages } = startClock(shift)
  await clock.start()
  expect(errorOf(clock)).toBeLessThan(BOUND_MS)
  expect(clock.offsetMs()).toBeGreaterThan(HOUR_MS - BOUND_MS)
  expect(clock.note()).toMatch(AHEAD)
  await measured(5)
  const differs = 'the clock differs from the database’s: use NTP'
  expect(messages()).toEqual([differs])

  shift.ms = -HOUR_MS
  await waitFor(() => expect(clock.note()).toMatch(BEHIND))
  expect(errorOf(clock)).toBeLessThan(BOUND_MS)

  shift.ms = 0
  await waitFor(() => expect(clock.note()).toBeUndefined())
  await measured(5)
  const again = 'the clock agrees with the database’s again'
  expect(messages()).toEqual([differs, differs, again])
})
