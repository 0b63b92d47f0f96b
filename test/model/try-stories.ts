import { spawnSync } from 'node:child_process'
import { randomInt } from 'node:crypto'
import fc from 'fast-check'
import { expect } from 'vitest'

/** How long stories are tried, and from which seed: `MODEL_SEED` repeats a run. */
export const MODEL_SECONDS = Number(process.env['MODEL_SECONDS'] ?? 10)
export const MODEL_SEED = Number(process.env['MODEL_SEED'] ?? seedOfCommit())

/** How many commands run at the same time. */
export const MODEL_TOGETHER = Number(process.env['MODEL_TOGETHER'] ?? 1)

/** A seed that moves with each commit; a random one outside of a repository. */
function seedOfCommit(): number {
  const { stdout } = spawnSync('git', ['rev-parse', 'HEAD'], { encoding: 'utf8' })
  return /^[0-9a-f]{40}/.test(stdout) ? Number.parseInt(stdout.slice(0, 7), 16) : randomInt(2 ** 31)
}

/** Tries stories for a while, and fails with the shortest that was found to fail. */
export async function expectStories<Story>(
  story: fc.Arbitrary<Story>,
  play: (story: Story) => Promise<void>,
  seconds = MODEL_SECONDS,
): Promise<void> {
  console.log(`MODEL_SEED=${MODEL_SEED}`)
  expect(await tryStories(story, play, { seconds, seed: MODEL_SEED })).toBeUndefined()
}

/** Tries stories for a while. @returns the shortest that was found to fail */
async function tryStories<Story>(
  story: fc.Arbitrary<Story>,
  play: (story: Story) => Promise<void>,
  { seconds, seed }: { readonly seconds: number; readonly seed: number },
): Promise<string | undefined> {
  const textOf = (error: unknown) => `MODEL_SEED=${seed}\n${(error as Error).message}`
  let last = Promise.resolve()
  const startedMs = performance.now()
  const property = fc.asyncProperty(story, (each) => {
    last = play(each)
    return last
  })
  const found = await fc.check(property, {
    seed,
    numRuns: 1_000_000,
    markInterruptAsFailure: false,
    interruptAfterTimeLimit: seconds * 1_000,
    endOnFailure: true,
  })
  // When the time is up, the last story is not over. If it is the first one, fast-check counts that as a failure.
  if (found.counterexample === null) return last.then(() => undefined, textOf)
  const after = Math.round((performance.now() - startedMs) / 1_000)
  console.log(`a story failed after ${after} s; shortening it`)
  const shrunk = await fc.check(property, {
    seed,
    path: found.counterexamplePath ?? '',
    interruptAfterTimeLimit: 60_000,
  })
  await last.catch(() => undefined)
  return textOf((shrunk.errorInstance ? shrunk : found).errorInstance)
}
