import { afterAll, vi } from 'vitest'
import { descendantsOf, killAll } from './processes.ts'

/** What a process that was sent a signal has to end. */
const END_MS = 2_000

// Every test file has this hook, and it runs after the file's own: what the file started has ended by
// then, or the file fails, and its processes are killed.
afterAll(async () => {
  const left = () => descendantsOf(process.pid)
  await vi.waitUntil(() => left().length === 0, { timeout: END_MS }).catch(() => undefined)
  const killed = killAll(left())
  if (killed !== '') throw new Error(`the tests of this file left processes behind:\n${killed}`)
})
