import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseLagosTime } from '../../src/banks/lagos-time.ts'
import { HOUR_MS } from '../../src/core/durations.ts'

const parsed = (text: string) => {
  const ms = parseLagosTime(text)
  return ms === undefined ? undefined : new Date(ms).toISOString()
}

describe('a time of a bank', () => {
  test('without a zone is in Lagos, an hour ahead of UTC, in each format', () => {
    const time = fc.date({
      min: new Date('2000-01-01T00:00:00Z'),
      max: new Date('2099-12-31T23:59:59Z'),
      noInvalidDate: true,
    })
    fc.assert(
      fc.property(time, (date) => {
        const wholeMs = Math.floor(date.getTime() / 1_000) * 1_000
        const text = new Date(wholeMs).toISOString().slice(0, 19)
        expect(parseLagosTime(text)).toBe(wholeMs - HOUR_MS)
        expect(parseLagosTime(text.replace('T', ' '))).toBe(wholeMs - HOUR_MS)
        expect(parseLagosTime(`${text}Z`)).toBe(wholeMs)
        const [year, month, day, hour, minute, second] = text.split(/\D/).map(Number)
        const rest = [minute, second].map((part) => String(part).padStart(2, '0')).join(':')
        const half = hour! < 12 ? 'AM' : 'pm'
        expect(parseLagosTime(`${month}/${day}/${year} ${hour! % 12 || 12}:${rest} ${half}`)).toBe(
          wholeMs - HOUR_MS,
        )
      }),
    )
  })

  test.each([
    ['2023-06-07T09:35:29', '2023-06-07T08:35:29.000Z'],
    ['2021-03-01 18:06:20.1', '2021-03-01T17:06:20.100Z'],
    ['2021-03-01 18:06:20.123456789', '2021-03-01T17:06:20.123Z'],
    ['2021-03-01T18:06:20+01:30', '2021-03-01T16:36:20.000Z'],
    ['1/9/2024 1:02 PM', '2024-01-09T12:02:00.000Z'],
    ['01/19/2024 12:00:00 AM', '2024-01-18T23:00:00.000Z'],
    ['01/19/2024 12:00:00 PM', '2024-01-19T11:00:00.000Z'],
    ['2099-12-31T23:59:59Z', '2099-12-31T23:59:59.000Z'],
  ])('%s is %s', (text, iso) => {
    expect(parsed(text)).toBe(iso)
  })

  test.each([
    '',
    '2023-02-30T00:00:00',
    '2023-00-01T00:00:00',
    '2023-01-01T24:00:00',
    '2023-01-01T00:00:60',
    '1999-12-31T23:59:59Z',
    '2023-01-01',
    '2023-01-01T00:00:00.1234567890',
    '2023-01-01T00:00:00+0100',
    '2023-01-01T00:00:00+15:00',
    '2023-01-01T00:00:00 ',
    '12023-01-01T00:00:00',
    '1/19/2024 0:12:53 AM',
    '1/19/2024 10:12:53 XM',
    '2/30/2024 10:12:53 AM',
    '111/1/2024 10:12:53 AM',
    '1/1/2024 10:12:5 AM',
  ])('"%s" is none', (text) => {
    expect(parsed(text)).toBeUndefined()
  })
})
