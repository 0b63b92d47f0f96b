import { spawnSync } from 'node:child_process'
import { randomInt } from 'node:crypto'
import fc from 'fast-check'

/** How long stories are tried, in seconds, and from which seed. */
export const SECONDS = Number(process.env['MODEL_SECONDS'] ?? 10)
export const SEED = Number(process.env['MODEL_SEED'] ?? seedOfCommit())

/** How long a story that fails is shortened. */
const SHRINK_SECONDS = Number(process.env['MODEL_SHRINK_SECONDS'] ?? 60)

/** A seed that moves with each commit; a random one outside of a repository. */
function seedOfCommit(): number {
  const { stdout } = spawnSync('git', ['rev-parse', 'HEAD'], { encoding: 'utf8' })
  return /^[0-9a-f]{40}/.test(stdout) ? Number.parseInt(stdout.slice(0, 7), 16) : randomInt(2 ** 31)
}

/**
 * Tries stories for a while.
 *
 * @param play throws if a story fails; the message has all that was done
 * @returns the shortest story that was found to fail
 */
export async function tryStories<Story>(
  stories: fc.Arbitrary<Story>,
  play: (story: Story) => Promise<void>,
  { seconds, seed }: { readonly seconds: number; readonly seed: number },
): Promise<string | undefined> {
  const property = fc.asyncProperty(stories, play)
  const found = await fc.check(property, {
    ...{ seed, numRuns: 1_000_000, markInterruptAsFailure: false },
    ...{ interruptAfterTimeLimit: seconds * 1_000, endOnFailure: true },
  })
  if (!found.failed) return undefined
  const shrunk = await fc.check(property, {
    ...{
      seed,
      path: found.counterexamplePath ?? '',
      interruptAfterTimeLimit: SHRINK_SECONDS * 1_000,
    },
  })
  const { errorInstance } = shrunk.failed && shrunk.errorInstance ? shrunk : found
  return `MODEL_SEED=${seed}\n${(errorInstance as Error).message}`
}
