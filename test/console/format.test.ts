import { create } from '@bufbuild/protobuf'
import fc from 'fast-check'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { HeaderOmission, WebhookRequestSchema } from '../../gen/inflow/webhook/v1/delivery_pb.ts'
import { curlOfCall, curlOfWebhook } from '../../src/console/format/curl.ts'
import { shorten } from '../../src/console/format/ids.ts'
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
  test('is exact for any amount, has commas and kobo, and is read as it is written', () => {
    expect(naira(9_007_199_254_740_993n)).toBe('₦90,071,992,547,409.93')
    expect(naira(-5n)).toBe('−₦0.05')
    fc.assert(
      fc.property(amounts, (minor) => {
        const text = naira(minor)
        expect(text).toMatch(/^₦\d{1,3}(,\d{3})*\.\d{2}$/)
        expect(BigInt(text.replaceAll(/[₦,.]/g, ''))).toBe(minor)
        expect(parseNaira(text)).toBe(minor)
        expect(parseNaira(text.replaceAll(',', '').slice(1))).toBe(minor)
      }),
    )
  })

  test('is read only if it is an amount', () => {
    for (const text of ['', 'x', '1,50', '1.234', '-1', '1..2', '12,34,567', '1e5']) {
      expect(parseNaira(text), text).toBeUndefined()
    }
    expect(['1500', '₦1,500.5', ' 0.05 '].map(parseNaira)).toEqual([150_000n, 150_050n, 5n])
  })

  test('counts are short, and rounded', () => {
    expect(
      [999n, 1_000n, 1_250n, 99_960n, 999_499n, 999_999n, 12_345_678n].map(shortCount),
    ).toEqual(['999', '1k', '1.3k', '100k', '999k', '1m', '12.3m'])
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
    expect([count(1_234_567n), count(999)]).toEqual(['1,234,567', '999'])
  })
})

describe('durations', () => {
  test('have two units at most', () => {
    const durations = [-5, 312.4, 4_120, 252_000, 3 * HOUR + 5 * 60_000, 2 * DAY + 4 * HOUR]
    const texts = ['0 ms', '312 ms', '4.1 s', '4 min 12 s', '3 h 5 min', '2 d 4 h']
    expect(durations.map(durationText)).toEqual(texts)
  })

  test('never reach the next unit, and never grow shorter', () => {
    const units = { ms: 1, s: 1_000, min: 60_000, h: HOUR, d: DAY } as Record<string, number>
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

  test('of Lagos are an hour ahead of UTC, and so are its days', () => {
    expect(lagosClock(at)).toBe('23:30')
    expect(lagosDay(at + HOUR)).toBe('Tue 24 Nov')
  })

  test.each([
    ['Africa/Lagos', '23 Nov 2026, 23:30:05', 2],
    ['Asia/Tokyo', '24 Nov 2026, 07:30:05', 3],
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
    expect(['key_1', 'txn_0123456789abcdef'].map((id) => shorten(id, 16))).toEqual([
      'key_1',
      'txn_01234…abcdef',
    ])
  })

  test('a request becomes a command that a shell reads as it was', () => {
    const request = create(WebhookRequestSchema, {
      method: 'POST',
      url: 'https://example.com/hook?a=1',
      headers: [
        { name: 'content-type', value: 'application/json' },
        { name: 'webhook-signature', omission: HeaderOmission.BY_ATTEMPT },
      ],
      body: `{"narration":"Chidi's $rent"}`,
    })
    expect(curlOfWebhook(request).split(' \\\n  ')).toEqual([
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
