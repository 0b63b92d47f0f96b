import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { afterAll, vi } from 'vitest'
import { descendantsOf, killAll } from './processes.ts'
import { SEED } from './random.ts'

fc.configureGlobal({ seed: SEED })

/** How long a process may take to end after a signal. */
const END_MS = 120_000

/** Whether Linux reports that this process has no children; `ps` would take 0.1 s of a core. */
function isChildless(): boolean {
  try {
    return readFileSync(`/proc/self/task/${process.pid}/children`, 'utf8') === ''
  } catch {
    return false
  }
}

// Every test file has this hook, which runs after the file's own hooks: if a process that the file
// started is still running, it is killed and the file fails.
afterAll(async () => {
  if (isChildless()) return
  const left = () => descendantsOf(process.pid)
  await vi.waitUntil(() => left().length === 0, { timeout: END_MS }).catch(() => undefined)
  const killed = killAll(left())
  if (killed !== '') throw new Error(`the tests of this file left processes behind:\n${killed}`)
})
