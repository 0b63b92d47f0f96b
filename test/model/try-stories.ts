import { spawnSync } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { ConnectError } from '@connectrpc/connect'
import fc from 'fast-check'
import { expect } from 'vitest'
import { ErrorInfoSchema } from '../../gen/google/rpc/error_details_pb.ts'

/** How long stories are tried, and from which seed: `MODEL_SEED` repeats a run. */
export const MODEL_SECONDS = Number(process.env['MODEL_SECONDS'] ?? 8)
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

/** One of some kinds, each as often as its weight says. */
export const weighted = <Kind extends string>(weights: Readonly<Record<Kind, number>>) =>
  fc.oneof(
    ...Object.entries<number>(weights).map(([kind, weight]) => {
      return { weight, arbitrary: fc.constant(kind as Kind) }
    }),
  )

/** Plays a story. @throws Error with the lines of all that was done */
export async function recount(done: readonly string[], story: () => Promise<void>): Promise<void> {
  try {
    await story()
  } catch (error) {
    throw new Error(`${done.join('\n')}\n${(error as Error).message}`, { cause: error })
  }
}

/** What a caller gets of a call: its result, or the reason of its refusal. */
export async function answerOf(call: Promise<string>): Promise<string> {
  try {
    return await call
  } catch (error) {
    const [info] = ConnectError.from(error).findDetails(ErrorInfoSchema)
    if (info === undefined) throw error
    return info.reason
  }
}

/** What a command may lead to. */
export type Steps<World, Command> = (
  world: World,
  command: Command,
) => readonly { readonly world: World; readonly answer: string }[]

/** The worlds after commands that ran at the same time: after each order of them in which they have these answers. */
export function worldsAfter<World, Command>(
  step: Steps<World, Command>,
  worlds: readonly World[],
  commands: readonly Command[],
  answers: readonly string[],
): readonly World[] {
  const distinct: World[] = []
  for (const world of worlds.flatMap((each) => orders(step, each, commands, answers))) {
    if (!distinct.some((each) => isDeepStrictEqual(each, world))) distinct.push(world)
  }
  return distinct
}

function orders<World, Command>(
  step: Steps<World, Command>,
  world: World,
  commands: readonly Command[],
  answers: readonly string[],
): World[] {
  if (commands.length === 0) return [world]
  return commands.flatMap((command, index) =>
    step(world, command)
      .filter((next) => next.answer === answers[index])
      .flatMap((next) =>
        orders(step, next.world, commands.toSpliced(index, 1), answers.toSpliced(index, 1)),
      ),
  )
}
