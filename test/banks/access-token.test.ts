import { beforeEach, describe, expect, test } from 'vitest'
import { createAccessToken, type IssuedToken } from '../../src/banks/http/access-token.ts'

let nowMs: number
let asked: { resolve(token: IssuedToken): void; reject(error: Error): void }[]

beforeEach(() => {
  nowMs = 1_000_000
  asked = []
})

const create = () =>
  createAccessToken({
    fetch: () => new Promise((resolve, reject) => void asked.push({ resolve, reject })),
    clock: { now: () => nowMs },
    marginSeconds: 60,
  })

const issue = (at: number, token: string, expiresInSeconds = 7_200) =>
  asked[at]!.resolve({ token, expiresInSeconds })

describe('a token', () => {
  test('is fetched once for all who ask at once, and kept until its margin', async () => {
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
    expect(asked).toHaveLength(2)
  })

  test('that lives shorter than the margin is used for half of its life', async () => {
    const access = create()
    const first = access.get()
    issue(0, 'short', 30)
    await first
    nowMs += 14_999
    expect(await access.get()).toBe('short')
    nowMs += 1
    void access.get()
    expect(asked).toHaveLength(2)
  })

  test('that the bank refused is renewed once for all who had it', async () => {
    const access = create()
    const first = access.get()
    issue(0, 'one')
    await first
    const renewals = Promise.all([access.renew('one'), access.renew('one'), access.get()])
    issue(1, 'two')
    expect(await renewals).toEqual(['two', 'two', 'two'])
    // Somebody late, who still had the first.
    expect(await access.renew('one')).toBe('two')
    expect(asked).toHaveLength(2)
  })

  test('that could not be fetched is asked for again by the next', async () => {
    const access = create()
    const both = Promise.allSettled([access.get(), access.get()])
    asked[0]!.reject(new Error('away'))
    expect((await both).map((each) => each.status)).toEqual(['rejected', 'rejected'])
    const next = access.get()
    issue(1, 'two')
    expect(await next).toBe('two')
  })
})

test('a fetch that does not end is given up', async () => {
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
