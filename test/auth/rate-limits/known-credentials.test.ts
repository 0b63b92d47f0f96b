import { hash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import {
  type CredentialHashes,
  createKnownCredentials,
} from '../../../src/auth/rate-limits/known-credentials.ts'
import { createTestRuntime } from '../../support/runtime.ts'

const digest = (credential: string) => hash('sha256', credential, 'base64')

const setUp = (stored: readonly CredentialHashes[] = []) =>
  createKnownCredentials(createTestRuntime({}), { stored, fixed: undefined })

/** The stored hashes of keys, and the limits that they are read with. */
function storedKeys(latest: readonly string[]) {
  const limits: number[] = []
  const keys: CredentialHashes = {
    latest: async (limit) => {
      limits.push(limit)
      return latest.map(digest)
    },
    issuedSince: async () => [],
  }
  return { keys, limits }
}

describe('a credential is known', () => {
  test('from when it was recorded until it is forgotten', () => {
    const known = setUp()
    known.forget('a')
    expect(known.has('a')).toBe(false)
    known.record('a', { authenticatedAtMs: 5 })
    expect([known.has('a'), known.has('b')]).toEqual([true, false])
    known.forget('b')
    known.forget('a')
    expect(known.has('a')).toBe(false)
  })

  test('after a restart, of each kind as many as fit, those used last', async () => {
    const [keys, tokens] = [storedKeys(['a', 'b']), storedKeys(['c'])]
    const known = setUp([keys.keys, tokens.keys])
    await known.load()
    expect(['a', 'b', 'c', 'd'].map(known.has)).toEqual([true, true, true, false])
    expect([keys.limits, tokens.limits]).toEqual([[25_000], [25_000]])
    await setUp().load()
  })

  test('until 50,000 others were used since, the least recently loaded first', async () => {
    const names = Array.from({ length: 50_000 }, (_, at) => `${at}`)
    const known = setUp([storedKeys(names).keys])
    await known.load()
    known.record('new', { authenticatedAtMs: 5 })
    expect(['0', '49998', '49999'].map(known.has)).toEqual([true, true, false])
  })
})
