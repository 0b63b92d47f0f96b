import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createCalendar, type Schedule } from '../../src/settlement/schedule.ts'
import { BEFORE_ALL, percentDone } from '../../src/settlement/settlement.ts'

const at = (text: string) => Date.parse(text)
const show = (ms: number) => new Date(ms).toISOString()

const workingDays = (count: number, cutOffMinutes = 0): Schedule => ({
  schedule: 'WORKING_DAYS',
  workingDays: count,
  cutOffMinutes,
})
const daily = (cutOffMinutes: number): Schedule => ({
  schedule: 'DAILY',
  workingDays: 0,
  cutOffMinutes,
})

describe('a payment is due', () => {
  // 20 November 2026 is a Friday. Midnight in Lagos is 23:00 of the day before in UTC.
  test.each<[string, Schedule, string[], string, string]>([
    ['after a weekend', workingDays(1), [], '2026-11-20T10:00:00Z', '2026-11-22T23:00:00Z'],
    ['by the day in Lagos', workingDays(1), [], '2026-11-19T23:00:00Z', '2026-11-22T23:00:00Z'],
    [
      'at the cut-off of the next working day',
      workingDays(1, 540),
      [],
      '2026-11-19T10:00:00Z',
      '2026-11-20T08:00:00Z',
    ],
    [
      'after two working days',
      workingDays(2),
      ['2026-11-23'],
      '2026-11-19T10:00:00Z',
      '2026-11-23T23:00:00Z',
    ],
    [
      'at the cut-off of the same day if recorded before it',
      daily(600),
      [],
      '2026-11-21T08:59:59.999Z',
      '2026-11-21T09:00:00Z',
    ],
    [
      'at the cut-off of the next day if recorded at the cut-off',
      daily(600),
      ['2026-11-22'],
      '2026-11-21T09:00:00Z',
      '2026-11-22T09:00:00Z',
    ],
  ])('%s', (_when, schedule, holidays, recordedAt, due) => {
    expect(show(createCalendar(schedule, holidays).settlesAt(at(recordedAt)))).toBe(show(at(due)))
  })

  test('immediately under INSTANT', () => {
    const { settlesAt, settledBy } = createCalendar(
      { schedule: 'INSTANT', workingDays: 0, cutOffMinutes: 0 },
      [],
    )
    expect(settlesAt(5)).toBe(5)
    // A balance gets at most one settlement in a minute.
    expect(settledBy(5)).toBe(60_005)
  })
})

const schedule: fc.Arbitrary<Schedule> = fc.oneof(
  fc.constant({ schedule: 'INSTANT' as const, workingDays: 0, cutOffMinutes: 0 }),
  fc.nat({ max: 1439 }).map(daily),
  fc
    .tuple(fc.integer({ min: 1, max: 30 }), fc.nat({ max: 1439 }))
    .map(([days, cut]) => workingDays(days, cut)),
)
const day = fc
  .nat({ max: 120 })
  .map((days) => new Date(Date.UTC(2026, 9, 1) + days * 86_400_000).toISOString().slice(0, 10))
const time = fc.integer({ min: Date.UTC(2026, 9, 1), max: Date.UTC(2027, 0, 20) })

test('exactly the payments recorded before the cut-off are due', () => {
  fc.assert(
    fc.property(
      schedule,
      fc.array(day, { maxLength: 20 }),
      time,
      time,
      (terms, holidays, now, recorded) => {
        const calendar = createCalendar(terms, holidays)
        const cutOff = calendar.cutOffAt(now)
        for (const each of [recorded, cutOff - 1, cutOff]) {
          expect(calendar.settlesAt(each) <= now, `${each} ${now}`).toBe(each < cutOff)
        }
      },
    ),
  )
})

test('a payment is due at its due time and not a millisecond earlier', () => {
  fc.assert(
    fc.property(schedule, fc.array(day, { maxLength: 20 }), time, (terms, holidays, recorded) => {
      const { settlesAt, cutOffAt } = createCalendar(terms, holidays)
      const due = settlesAt(recorded)
      expect(cutOffAt(due)).toBeGreaterThan(recorded)
      expect(cutOffAt(due - 1)).toBeLessThanOrEqual(recorded)
    }),
  )
})

test('holidays without end delay no payment for more than a thousand days', () => {
  const from = Date.UTC(2026, 10, 20)
  const holidays = Array.from({ length: 2_000 }, (_, days) =>
    show(from + days * 86_400_000).slice(0, 10),
  )
  const { settlesAt } = createCalendar(workingDays(1), holidays)
  expect(show(settlesAt(from) + 3_600_000)).toBe(show(from + 1_001 * 86_400_000))
})

test('a later payment is never due earlier, and no payment is due before it was recorded', () => {
  fc.assert(
    fc.property(schedule, fc.array(day), time, time, (terms, holidays, a, b) => {
      const { settlesAt } = createCalendar(terms, holidays)
      const [earlier, later] = a < b ? [a, b] : [b, a]
      expect(settlesAt(earlier)).toBeLessThanOrEqual(settlesAt(later))
      expect(settlesAt(earlier)).toBeGreaterThanOrEqual(earlier)
    }),
  )
})

const sequence = fc.bigInt({ min: 0n, max: 10n ** 12n })

describe('the progress of a settlement', () => {
  test('is the scanned part of its range in whole percent, rounded down, and 100 only when completed', () => {
    fc.assert(
      fc.property(
        fc.bigInt({ min: -(10n ** 12n), max: 10n ** 12n }),
        fc
          .tuple(sequence, sequence)
          .map(([a, b]) => (a < b ? ([a, b] as const) : ([b, a] as const))),
        (fromSequence, [done, whole]) => {
          const toSequence = fromSequence + whole
          const range = { fromSequence, toSequence, scannedSequence: fromSequence + done }
          const percent = percentDone({ status: 'RUNNING', ...range })
          if (whole === 0n) expect(percent).toBe(0)
          else if (done === whole) expect(percent).toBe(99)
          else expect(percent).toBe(Math.floor(Number((done * 1_000n) / whole) / 10))
          expect(percentDone({ status: 'COMPLETED', ...range })).toBe(100)
        },
      ),
    )
  })

  test.each<[string, bigint, bigint, bigint, number]>([
    ['the first settlement of a business, half-way', BEFORE_ALL, 1_000n, 500n, 50],
    ['the first settlement of a business without events', BEFORE_ALL, 0n, BEFORE_ALL, 0],
    ['all events of a business with negative sequence numbers', -20n, -10n, -10n, 99],
    // More than its range was scanned, as nothing was in it.
    ['a range without events', 10n, 10n, 11n, 0],
  ])('%s', (_what, fromSequence, toSequence, scannedSequence, percent) => {
    const range = { fromSequence, toSequence, scannedSequence }
    expect(percentDone({ status: 'RUNNING', ...range })).toBe(percent)
  })
})
