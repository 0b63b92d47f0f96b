import { beforeEach, describe, expect, test } from 'vitest'
import { createAccessToken, type IssuedToken } from '../../src/banks/http/access-token.ts'

let nowMs: number
let fetches: { resolve(token: IssuedToken): void; reject(error: Error): void }[]

beforeEach(() => {
  nowMs = 1_000_000
  fetches = []
})

const create = () =>
  createAccessToken({
    fetch: () => new Promise((resolve, reject) => void fetches.push({ resolve, reject })),
    clock: { now: () => nowMs },
    marginSeconds: 60,
  })

const issue = (at: number, token: string, expiresInSeconds = 7_200) =>
  fetches[at]!.resolve({ token, expiresInSeconds })

describe('a token', () => {
  test('is fetched once for concurrent callers and cached until its margin', async () => {
    const access = create()
    const callers = Promise.all([access.get(), access.get(), access.get()])
    issue(0, 'one')
    expect(await callers).toEqual(['one', 'one', 'one'])
    nowMs += 7_139_999
    expect(await access.get()).toBe('one')
    nowMs += 1
    const next = access.get()
    issue(1, 'two')
    expect(await next).toBe('two')
    expect(fetches).toHaveLength(2)
  })

  test('with a lifetime below the margin is used for half of its lifetime', async () => {
    const access = create()
    const first = access.get()
    issue(0, 'short', 30)
    await first
    nowMs += 14_999
    expect(await access.get()).toBe('short')
    nowMs += 1
    void access.get()
    expect(fetches).toHaveLength(2)
  })
})

test('a fetch that does not end times out', async () => {
  const access = createAccessToken({
    fetch: (signal) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason))
      }),
    clock: { now: () => nowMs },
    marginSeconds: 60,
    timeoutMs: 20,
  })
  await expect(access.get()).rejects.toThrow(/timeout/)
})
