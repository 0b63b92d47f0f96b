import { afterEach, expect, onTestFinished, test, vi } from 'vitest'
import { HOUR_MS } from '../../src/core/durations.ts'
import { createLoop, type Loop } from '../../src/core/loop.ts'
import { captureLog } from '../support/captured-log.ts'
import { waitFor } from '../support/wait-for.ts'

const { log, lines } = captureLog()
let loop: Loop | undefined

afterEach(async () => {
  await loop?.stop()
  lines.length = 0
})

/** Starts a loop. @returns how many turns it has run */
function start(turn: (count: number, signal: AbortSignal) => Promise<number | undefined>) {
  let turns = 0
  const options = { name: 'test', log, everyMs: HOUR_MS, random: () => 0.5 }
  loop = createLoop({ ...options, turn: (signal) => turn(++turns, signal) })
  loop.start()
  return () => turns
}

test('the next turn starts at once when there is more to do, or on a wake', async () => {
  const turns = start(async (count) => (count < 3 ? 0 : undefined))
  await waitFor(() => expect(turns()).toBe(3))
  loop?.wake()
  await waitFor(() => expect(turns()).toBe(4))
})

test('wakes during a turn cause one more turn', async () => {
  const turns = start(async (count) => {
    if (count === 1) for (let i = 0; i < 10; i++) loop?.wake()
    return undefined
  })
  await waitFor(() => expect(turns()).toBe(2))
  loop?.wake()
  await waitFor(() => expect(turns()).toBe(3))
})

test('jitter shortens the longest wait, but not a requested wait', async () => {
  const setTimer = vi.spyOn(globalThis, 'setTimeout')
  onTestFinished(() => setTimer.mockRestore())
  const waits = () => setTimer.mock.calls.map(([, ms]) => ms)
  start(async (count) => (count === 1 ? undefined : 1_234))
  await waitFor(() => expect(waits()).toContain(HOUR_MS * 0.9))
  expect(waits()).not.toContain(1_234)
  loop?.wake()
  await waitFor(() => expect(waits()).toContain(1_234))
})

test('logs and repeats a failed turn, and logs the recovery', async () => {
  const turns = start(async (count) => {
    if (count <= 2) throw new Error('away')
    return undefined
  })
  await waitFor(() => expect(turns()).toBe(3))
  await waitFor(() =>
    expect(lines.map(({ msg, failures, waitMs }) => [msg, failures, waitMs])).toEqual([
      ['loop failed: retrying', 1, 100],
      ['loop failed: retrying', 2, 200],
      ['loop recovered', 2, undefined],
    ]),
  )
})

test('stopping aborts the signal of the turn, waits for it and starts no other', async () => {
  const turns = start(
    (_count, signal) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(new Error('stopped')))
      }),
  )
  await waitFor(() => expect(turns()).toBe(1))
  await loop?.stop()
  loop?.wake()
  expect(turns()).toBe(1)
  expect(lines).toEqual([])
})
