import { expect, test } from 'vitest'
import { createCredentialCache, type Found } from '../../src/auth/credential-cache.ts'

function setUp() {
  let nowMs = 1_000_000
  let asked = 0
  let answer: Found<string> | undefined = { value: 'ada', expiresAtMs: undefined }
  const trust = createCredentialCache<string>({ now: () => nowMs })
  const waiting: (() => void)[] = []
  return {
    ask: (digest = 'd') =>
      trust(digest, async () => {
        asked += 1
        return answer
      }),
    /** Answers when `release` is called. */
    askSlowly: () =>
      trust('d', async () => {
        asked += 1
        const found = answer
        await new Promise<void>((resolve) => waiting.push(resolve))
        return found
      }),
    fail: () =>
      trust('d', async () => {
        asked += 1
        throw new Error('away')
      }),
    release: () => {
      for (const resolve of waiting.splice(0)) resolve()
    },
    pass: (ms: number) => {
      nowMs += ms
    },
    answerWith: (found: Found<string> | undefined) => {
      answer = found
    },
    asked: () => asked,
    nowMs: () => nowMs,
  }
}

test('what was found is trusted for less than a second from the question on', async () => {
  const { ask, pass, answerWith, asked } = setUp()
  expect(await ask()).toBe('ada')
  answerWith(undefined)
  pass(799)
  expect(await ask()).toBe('ada')
  expect(asked()).toBe(1)
  pass(1)
  expect(await ask()).toBeUndefined()
  expect(asked()).toBe(2)
})

test('what was not found is asked for again each time', async () => {
  const { ask, answerWith, asked } = setUp()
  answerWith(undefined)
  expect(await ask()).toBeUndefined()
  answerWith({ value: 'ada', expiresAtMs: undefined })
  expect(await ask()).toBe('ada')
  expect(asked()).toBe(2)
})

test('an expired credential is nobody’s, and a remembered one ends with its time', async () => {
  const { ask, pass, answerWith, nowMs, asked } = setUp()
  answerWith({ value: 'ada', expiresAtMs: nowMs() })
  expect(await ask()).toBeUndefined()
  answerWith({ value: 'ada', expiresAtMs: nowMs() + 100 })
  expect(await ask()).toBe('ada')
  pass(99)
  expect(await ask()).toBe('ada')
  pass(1)
  expect(await ask()).toBeUndefined()
  expect(asked()).toBe(3)
})

test('those who ask at the same time ask once, unless the question is too old by then', async () => {
  const { askSlowly, release, pass, asked, answerWith } = setUp()
  const together = [askSlowly(), askSlowly(), askSlowly()]
  expect(asked()).toBe(1)
  pass(800)
  answerWith(undefined)
  const later = askSlowly()
  expect(asked()).toBe(2)
  release()
  expect(await Promise.all(together)).toEqual(['ada', 'ada', 'ada'])
  expect(await later).toBeUndefined()
})

test('a clock that is set back prolongs no trust, and no question is joined that is older', async () => {
  const { ask, askSlowly, release, pass, answerWith, asked } = setUp()
  expect(await ask()).toBe('ada')
  answerWith(undefined)
  pass(-3_600_000)
  expect(await ask()).toBeUndefined()
  const before = askSlowly()
  pass(-1)
  const after = askSlowly()
  expect(asked()).toBe(4)
  release()
  await Promise.all([before, after])
})

test('what is known is told at once, and of many only the latest are', async () => {
  const { ask, asked } = setUp()
  await ask('first')
  expect(ask('first')).toBe('ada')
  for (let each = 0; each < 10_000; each++) await ask(`${each}`)
  expect(await ask('first')).toBe('ada')
  expect(asked()).toBe(10_001)
  for (let each = 0; each < 20_000; each++) await ask(`other-${each}`)
  await ask('first')
  expect(asked()).toBe(30_002)
})

test('an answer that came too late is not trusted any more', async () => {
  const { askSlowly, release, pass, ask, answerWith } = setUp()
  const slow = askSlowly()
  pass(900)
  answerWith(undefined)
  release()
  expect(await slow).toBe('ada')
  expect(await ask()).toBeUndefined()
})

test('a failure is told to those who wait, and not remembered', async () => {
  const { fail, ask } = setUp()
  await expect(Promise.all([fail(), fail()])).rejects.toThrow('away')
  expect(await ask()).toBe('ada')
})
