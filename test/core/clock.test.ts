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

describe.each([
  'Africa/Lagos',
  'UTC',
  'America/St_Johns',
  'Asia/Kathmandu',
  'Australia/Lord_Howe',
  'Pacific/Chatham',
  'America/Sao_Paulo',
])('in %s', (zone) => {
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

  test('parses what it formats, except in the hour that a zone repeats', () => {
    fc.assert(
      fc.property(seconds, (second) => {
        const written = text.format(second * 1_000)
        const read = text.parse(written)
        expect(read).toBeDefined()
        expect(text.format(read ?? 0)).toBe(written)
        if (zone === 'Africa/Lagos') expect(read).toBe(second * 1_000)
      }),
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
