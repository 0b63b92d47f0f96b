import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { createTimeText } from '../../src/core/clock.ts'

const lagos = createTimeText('Africa/Lagos')

test('formats a time in Lagos, one hour ahead of UTC', () => {
  expect(lagos.format(Date.parse('2026-11-20T09:00:00Z'))).toBe('2026-11-20 10:00:00')
  expect(lagos.format(Date.parse('2026-12-31T23:30:59.999Z'))).toBe('2027-01-01 00:30:59')
  expect(lagos.format(Date.parse('2028-02-28T23:00:00Z'))).toBe('2028-02-29 00:00:00')
})

test('handles the first and last times with four-digit years', () => {
  expect(lagos.parse('0001-01-01 00:00:00')).toBeLessThan(Date.UTC(1000, 0))
  expect(lagos.parse('0000-01-01 00:00:00')).toBeLessThan(Date.UTC(1000, 0))
  expect(lagos.parse('0999-12-31 23:59:59')).toBeLessThan(Date.UTC(1000, 0))
  expect(lagos.parse('9999-12-31 23:59:59')).toBe(Date.parse('9999-12-31T22:59:59Z'))
})

describe.each(['Africa/Lagos', 'UTC', 'Australia/Lord_Howe', 'Pacific/Apia'])('in %s', (zone) => {
  const text = createTimeText(zone)
  const seconds = fc.integer({ min: 0, max: 4_102_444_799 })

  test('formats every time from 1970 to 2100 as Intl does', () => {
    const oracle = new Intl.DateTimeFormat('sv-SE', {
      timeZone: zone,
      dateStyle: 'short',
      timeStyle: 'medium',
    })
    fc.assert(
      fc.property(seconds, (second) => {
        expect(text.format(second * 1_000)).toBe(oracle.format(second * 1_000))
      }),
    )
  })

  test('reads every local time as Temporal does: one that is skipped moves forward, of a repeated one the first counts', () => {
    // Until 2011, Newfoundland changed its clocks at 00:01, within a quarter of an hour.
    const since2012 = fc.integer({ min: Date.UTC(2012, 0) / 1_000, max: 4_102_444_799 })
    // Up to two hours before and after a change of the clocks, where there is one.
    const near = fc.tuple(since2012, fc.integer({ min: -7_200, max: 7_200 }))
    fc.assert(
      fc.property(near, ([second, offset]) => {
        const from = Temporal.Instant.fromEpochMilliseconds(second * 1_000)
        const change = from.toZonedDateTimeISO(zone).getTimeZoneTransition('next')
        const at = (change?.toInstant() ?? from).add({ seconds: offset })
        // The clock that the change stops goes on: it shows the times that are skipped.
        for (const clock of [change?.subtract({ seconds: 1 }), change]) {
          const local = at.toZonedDateTimeISO(clock?.offset ?? 'UTC').toPlainDateTime()
          const written = local.toString({ smallestUnit: 'second' }).replace('T', ' ')
          expect(text.parse(written), written).toBe(local.toZonedDateTime(zone).epochMilliseconds)
        }
      }),
      { numRuns: 300 },
    )
  })
})

test.each([
  ['2026-11-20 10:00:00', '2026-11-20T09:00:00Z'],
  ['2026-11-20T10:00:00Z', '2026-11-20T10:00:00Z'],
  ['2026-11-20T10:00:00.5+01:00', '2026-11-20T09:00:00.500Z'],
  ['2026-11-20T10:00:00.123456789-05:30', '2026-11-20T15:30:00.123Z'],
  ['2028-02-29 00:00:00', '2028-02-28T23:00:00Z'],
])('"%s" is read', (text, expected) => {
  expect(lagos.parse(text)).toBe(Date.parse(expected))
})

test.each([
  '',
  'now',
  '2026-11-20',
  '2026-11-20 10:00',
  '2026-11-20T10:00:00',
  '2026-11-20 10:00:00Z',
  '2026-11-20 24:00:00',
  '2026-11-20 10:60:00',
  '2026-11-31 10:00:00',
  '2026-02-29 10:00:00',
  '2026-02-30T10:00:00Z',
  '2026-13-01 10:00:00',
  '2026-00-10 10:00:00',
  '20-11-2026 10:00:00',
  '1700000000',
  '2026-11-20 10:00:00 ',
  '２026-11-20 10:00:00',
])('"%s" is no time', (text) => {
  expect(lagos.parse(text)).toBeUndefined()
})

test('an unknown zone is a RangeError', () => {
  expect(() => createTimeText('Mars/Base')).toThrow(RangeError)
})
