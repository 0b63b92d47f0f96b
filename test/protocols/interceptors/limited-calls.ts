import { expect } from 'vitest'
import type { RateLimit } from '../../../src/auth/rate-limits/token-bucket.ts'
import { send } from '../rest/rest.ts'

/** So slow that no token comes back while a test runs. */
export const few = (burst: number): RateLimit => ({ perSecond: burst / 600, burst })
export const NONE = { key: undefined, token: undefined, address: undefined, failed: undefined }

/** One REST request, from an address that the proxy vouches for. */
export async function call(
  at: { httpUrl: string },
  key: string | undefined,
  address = '127.0.0.1',
) {
  const { status, headers, text } = await send(at.httpUrl, {
    path: '/v2/thirdparty/getTransaction/',
    headers: {
      'content-type': 'application/json',
      'x-forwarded-for': address,
      ...(key !== undefined && { authorization: `Bearer ${key}` }),
    },
    body: '{"session_id":"1"}',
  })
  const of = (name: string) => headers[name] as string | undefined
  return {
    status,
    code: JSON.parse(text).code as string,
    retryAfter: of('retry-after'),
    limit: [of('ratelimit-limit'), of('ratelimit-remaining'), of('ratelimit-reset')],
  }
}

export async function statuses(count: number, request: () => Promise<{ status: number }>) {
  const seen: number[] = []
  for (let each = 0; each < count; each++) seen.push((await request()).status)
  return seen
}

/** Seconds, of which some have passed. */
export function expectAbout(seconds: string | number | undefined, expected: number): void {
  expect(Number(seconds)).toBeLessThanOrEqual(expected)
  expect(Number(seconds)).toBeGreaterThan(expected - 40)
}

export const wrongKey = () => `sk_live_${'0'.repeat(26)}_${'A'.repeat(43)}`
