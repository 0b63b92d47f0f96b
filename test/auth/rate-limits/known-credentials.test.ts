import { hash } from 'node:crypto'
import pino from 'pino'
import { describe, expect, test } from 'vitest'
import {
  type CredentialHashes,
  createKnownCredentials,
} from '../../../src/auth/rate-limits/known-credentials.ts'
import { createTestRuntime } from '../../support/runtime.ts'
import { waitFor } from '../../support/wait-for.ts'

const digest = (credential: string) => hash('sha256', credential, 'base64')

function setUp(stored: readonly CredentialHashes[] = [], fixed?: string) {
  const state = { nowMs: 10_000_000, warnings: [] as unknown[] }
  const log = pino({ level: 'silent' })
  log.warn = (context: unknown) => {
    state.warnings.push(context)
  }
  const known = createKnownCredentials(
    createTestRuntime({}, { clock: { now: () => state.nowMs }, log }),
    { stored, fixed },
  )
  return { state, known }
}

/** The stored hashes of keys, which record what they are asked for. */
function storedKeys(latest: readonly string[], issued: readonly string[] = []) {
  const asked: [string, ...number[]][] = []
  const keys: CredentialHashes = {
    latest: async (limit) => {
      asked.push(['latest', limit])
      return latest.map(digest)
    },
    issuedSince: async (sinceMs, limit) => {
      asked.push(['issued', sinceMs, limit])
      return issued.map(digest)
    },
  }
  return { keys, asked }
}

describe('a credential is known', () => {
  test('from when it was recorded until it is forgotten', () => {
    const { known } = setUp()
    known.forget('a')
    expect(known.has('a')).toBe(false)
    known.record('a', { authenticatedAtMs: 5 })
    expect([known.has('a'), known.has('b')]).toEqual([true, false])
    known.forget('b')
    known.forget('a')
    expect(known.has('a')).toBe(false)
  })

  test('always, if the settings name it', () => {
    const { known } = setUp([], 'admin')
    known.forget('admin')
    expect([known.has('admin'), known.has('other')]).toEqual([true, false])
    expect(setUp().known.has('undefined')).toBe(false)
  })

  test('after a restart, of each kind as many as fit, those used last', async () => {
    const [keys, tokens] = [storedKeys(['a', 'b']), storedKeys(['c'])]
    const { known } = setUp([keys.keys, tokens.keys])
    await known.load()
    expect(['a', 'b', 'c', 'd'].map(known.has)).toEqual([true, true, true, false])
    expect([...keys.asked, ...tokens.asked]).toEqual([
      ['latest', 25_000],
      ['latest', 25_000],
    ])
    await setUp().known.load()
  })

  test('as recorded, also if it is loaded afterwards', async () => {
    const { known } = setUp([storedKeys(['a']).keys])
    const recorded = { authenticatedAtMs: 5 }
    known.record('a', recorded)
    await known.load()
    known.forget('a')
    expect(recorded.authenticatedAtMs).toBe(Number.NEGATIVE_INFINITY)
  })

  test('until 50,000 others were used since, the least recently loaded first', async () => {
    const names = Array.from({ length: 50_000 }, (_, at) => `${at}`)
    const { known } = setUp([storedKeys(names).keys])
    await known.load()
    known.record('new', { authenticatedAtMs: 5 })
    expect(['0', '49998', '49999'].map(known.has)).toEqual([true, true, false])
  })
})

describe('credentials that were issued lately', () => {
  test('are read at most once a second, with a minute of overlap', async () => {
    const { keys, asked } = storedKeys([], ['new'])
    const { known, state } = setUp([keys])
    const startedMs = state.nowMs
    const refreshAfter = (waitMs: number) => {
      state.nowMs += waitMs
      known.refresh()
    }
    refreshAfter(999)
    expect(asked).toEqual([])
    refreshAfter(1)
    // One read at a time.
    refreshAfter(5_000)
    expect(asked).toEqual([['issued', startedMs - 60_000, 1_000]])
    await waitFor(() => expect(known.has('new')).toBe(true))
    await new Promise(setImmediate)
    refreshAfter(0)
    const second = ['issued', startedMs + 1_000 - 60_000, 1_000]
    expect(asked.slice(1)).toEqual([second])
    await new Promise(setImmediate)
    refreshAfter(999)
    expect(asked.slice(1)).toEqual([second])
    refreshAfter(1)
    expect(asked).toHaveLength(3)
  })

  test('are read again, from the same time, after a read failed', async () => {
    const { keys, asked } = storedKeys([], ['new'])
    let failures = 1
    const failing: CredentialHashes = {
      ...keys,
      issuedSince: async (...args) => {
        const issued = await keys.issuedSince(...args)
        if (failures-- > 0) throw new Error('unavailable')
        return issued
      },
    }
    const { known, state } = setUp([failing])
    state.nowMs += 1_000
    known.refresh()
    await waitFor(() => expect(state.warnings).toEqual([{ err: new Error('unavailable') }]))
    await new Promise(setImmediate)
    expect(known.has('new')).toBe(false)
    known.refresh()
    await waitFor(() => expect(known.has('new')).toBe(true))
    expect(asked[1]).toEqual(asked[0])
    expect(state.warnings).toHaveLength(1)
  })
})
