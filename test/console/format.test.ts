import fc from 'fast-check'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { curlOf, curlOfCall } from '../../src/console/format/curl.ts'
import { shorten, words } from '../../src/console/format/ids.ts'
import { count, naira, parseNaira, shortCount } from '../../src/console/format/money.ts'
import {
  DAY,
  durationText,
  HOUR,
  lagosClock,
  lagosDay,
  timeText,
} from '../../src/console/format/time.ts'

/** Any amount, far beyond what a number holds exactly. */
const amounts = fc.bigInt({ min: 0n, max: 10n ** 40n })

describe('money', () => {
  test('is exact beyond 2^53', () => {
    expect(naira(9_007_199_254_740_993n)).toBe('₦90,071,992,547,409.93')
    expect(naira(150_050n)).toBe('₦1,500.50')
    expect(naira(-5n)).toBe('−₦0.05')
    expect(naira(5n, true)).toBe('+₦0.05')
    expect(naira(0n, true)).toBe('₦0.00')
  })

  test('is read as it is written', () => {
    fc.assert(
      fc.property(amounts, (minor) => {
        expect(parseNaira(naira(minor))).toBe(minor)
        expect(parseNaira(naira(minor).replaceAll(',', '').slice(1))).toBe(minor)
      }),
    )
  })

  test('has a comma at each third digit, and two digits of kobo', () => {
    fc.assert(
      fc.property(amounts, (minor) => {
        expect(naira(minor)).toMatch(/^₦\d{1,3}(,\d{3})*\.\d{2}$/)
        expect(
          naira(minor)
            .replaceAll(/[₦,.]/g, '')
            .replace(/^0+(?=\d)/, ''),
        ).toBe(String(minor))
      }),
    )
  })

  test.each(['', 'x', '1,50', '1.234', '-1', '1..2', '12,34,567', '1e5'])(
    '%j is no amount',
    (text) => {
      expect(parseNaira(text)).toBeUndefined()
    },
  )

  test.each([
    ['1500', 150_000n],
    ['₦1,500.5', 150_050n],
    [' 0.05 ', 5n],
  ])('%j is %s kobo', (text, minor) => {
    expect(parseNaira(text)).toBe(minor)
  })

  test('counts are short, and rounded', () => {
    expect(
      [999n, 1_000n, 1_250n, 99_960n, 999_499n, 999_999n, 12_345_678n].map(shortCount),
    ).toEqual([...['999', '1k', '1.3k', '100k', '999k', '1m', '12.3m']])
    const units: Readonly<Record<string, bigint>> = { k: 3n, m: 6n, bn: 9n, tn: 12n }
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 10n ** 15n - 10n ** 12n }), (value) => {
        const text = shortCount(value)
        expect(text.length).toBeLessThanOrEqual(6)
        const [, whole = '', tenth, unit = ''] = /^(\d{1,3})(?:\.(\d))?(\D*)$/.exec(text) ?? []
        const size = 10n ** (units[unit] ?? 0n)
        const shown = BigInt(whole) * size + (BigInt(tenth ?? 0) * size) / 10n
        const step = size === 1n || whole.length === 3 ? size : size / 10n
        expect(2n * (shown > value ? shown - value : value - shown) <= step).toBe(true)
        expect(shortCount(-value)).toBe(value === 0n ? '0' : `-${text}`)
      }),
    )
    expect(count(1_234_567n)).toBe('1,234,567')
    expect(count(999)).toBe('999')
  })
})

describe('durations', () => {
  test.each([
    [0, '0 ms'],
    [312.4, '312 ms'],
    [999.9, '999 ms'],
    [1_000, '1 s'],
    [4_120, '4.1 s'],
    [9_999, '9.9 s'],
    [59_999, '59 s'],
    [252_000, '4 min 12 s'],
    [HOUR - 1, '59 min 59 s'],
    [3 * HOUR + 5 * 60_000, '3 h 5 min'],
    [DAY - 1, '23 h 59 min'],
    [2 * DAY + 4 * HOUR, '2 d 4 h'],
    [-5, '0 ms'],
  ])('%d ms is %s', (ms, text) => {
    expect(durationText(ms)).toBe(text)
  })

  test('never reach the next unit, and never grow shorter', () => {
    const units: Readonly<Record<string, number>> = {
      ms: 1,
      s: 1_000,
      min: 60_000,
      h: HOUR,
      d: DAY,
    }
    const read = (text: string) =>
      [...text.matchAll(/([\d.]+) (\w+)/g)].reduce(
        (sum, [, number, unit = '']) => sum + Number(number) * (units[unit] ?? Number.NaN),
        0,
      )
    const durations = fc.double({ min: 0, max: 1_000 * DAY, noNaN: true })
    fc.assert(
      fc.property(durations, durations, (a, b) => {
        expect(read(durationText(a))).toBeLessThanOrEqual(a)
        expect(durationText(a)).not.toMatch(/\b(1000 ms|60 s|60 min|24 h)\b/)
        if (a <= b) expect(read(durationText(a))).toBeLessThanOrEqual(read(durationText(b)))
      }),
    )
  })
})

describe('times', () => {
  const at = Date.UTC(2026, 10, 23, 22, 30, 5)

  afterEach(() => {
    vi.unstubAllEnvs()
    vi.resetModules()
  })

  test('are relative within an hour, both ways', () => {
    expect(timeText(at, at)).toBe('now')
    expect(timeText(at, at + 42_700)).toBe('42 s ago')
    expect(timeText(at, at - 252_000)).toBe('in 4 min 12 s')
    expect(timeText(at, at + HOUR)).not.toContain('ago')
  })

  test('of Lagos are an hour ahead of UTC all year, and so are its days', () => {
    expect(lagosClock(at)).toBe('23:30')
    expect(lagosDay(at + HOUR)).toBe('Tue 24 Nov')
    const instants = fc.integer({ min: Date.UTC(2000, 0), max: Date.UTC(2099, 0) })
    fc.assert(
      fc.property(instants, (ms) => {
        const shifted = new Date(ms + HOUR).toISOString()
        expect(lagosClock(ms)).toBe(shifted.slice(11, 16))
        expect(lagosDay(ms).split(' ')[1]).toBe(String(Number(shifted.slice(8, 10))))
      }),
    )
  })

  test.each([
    ['UTC', '23 Nov 2026, 22:30:05', 3],
    ['Africa/Lagos', '23 Nov 2026, 23:30:05', 2],
    ['Asia/Tokyo', '24 Nov 2026, 07:30:05', 3],
    ['America/St_Johns', '23 Nov 2026, 19:00:05', 3],
  ])('in %s are those of the viewer, with UTC and Lagos on hover', async (zone, text, lines) => {
    vi.stubEnv('TZ', zone)
    vi.resetModules()
    const time = await import('../../src/console/format/time.ts')
    expect(time.timeText(at, at + DAY)).toBe(text)
    const title = time.timeTitle(at).split('\n')
    expect(title.slice(0, 2)).toEqual(['23 Nov 2026, 22:30:05 UTC', '23 Nov 2026, 23:30:05 Lagos'])
    expect(title.length).toBe(lines)
  })
})

describe('ids and commands', () => {
  test('an id keeps both ends', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: 'grapheme-ascii' }),
        fc.integer({ min: 8, max: 40 }),
        (id, max) => {
          const short = shorten(id, max)
          expect(short.length).toBeLessThanOrEqual(Math.max(max, 0))
          const [head = '', tail = ''] = short.split('…')
          if (id.length > max && !id.includes('…')) {
            expect(id.startsWith(head) && id.endsWith(tail)).toBe(true)
          }
        },
      ),
    )
    expect(words('RECORD_OUTCOME_RECORDED', 'RECORD_OUTCOME_')).toBe('Recorded')
  })

  test('a request becomes a command that a shell reads as it was', () => {
    const command = curlOf({
      method: 'POST',
      url: 'https://example.com/hook?a=1',
      headers: [
        { name: 'content-type', value: 'application/json' },
        { name: 'webhook-signature', value: undefined },
      ],
      body: `{"narration":"Chidi's $rent"}`,
    })
    expect(command.split(' \\\n  ')).toEqual([
      "curl -X POST 'https://example.com/hook?a=1'",
      "-H 'content-type: application/json'",
      '-H "webhook-signature: $WEBHOOK_SIGNATURE"',
      `--data-raw '{"narration":"Chidi'\\''s $rent"}'`,
    ])
    expect(curlOfCall('http://localhost:8080', 'a.B/C', '{}')).toContain(
      '-H "authorization: Bearer $INFLOW_TOKEN"',
    )
  })
})
