import { isDeepStrictEqual } from 'node:util'
import { ConnectError } from '@connectrpc/connect'
import fc from 'fast-check'
import { expect } from 'vitest'
import { ErrorInfoSchema } from '../../gen/google/rpc/error_details_pb.ts'
import { SEED } from '../support/random.ts'

/** How long stories are tried. */
export const MODEL_SECONDS = Number(process.env['MODEL_SECONDS'] ?? 8)

/** How many commands run at the same time. */
export const MODEL_TOGETHER = Number(process.env['MODEL_TOGETHER'] ?? 1)

/** Tries stories for a while, and fails with the shortest failing story. */
export async function expectStories<Story>(
  story: fc.Arbitrary<Story>,
  play: (story: Story) => Promise<void>,
  seconds = MODEL_SECONDS,
): Promise<void> {
  expect(await tryStories(story, play, seconds)).toBeUndefined()
}

/** Tries stories for a while. @returns the shortest failing story */
async function tryStories<Story>(
  story: fc.Arbitrary<Story>,
  play: (story: Story) => Promise<void>,
  seconds: number,
): Promise<string | undefined> {
  const textOf = (error: unknown) => `SEED=${SEED}\n${(error as Error).message}`
  let last = Promise.resolve()
  const startedMs = performance.now()
  const property = fc.asyncProperty(story, (each) => {
    last = play(each)
    return last
  })
  const found = await fc.check(property, {
    numRuns: 1_000_000,
    markInterruptAsFailure: false,
    interruptAfterTimeLimit: seconds * 1_000,
    endOnFailure: true,
  })
  // When the time is up, the last story is not over. If it is the first one, fast-check counts that as a failure.
  if (found.counterexample === null) return last.then(() => undefined, textOf)
  const after = Math.round((performance.now() - startedMs) / 1_000)
  console.log(`a story failed after ${after} s; shortening it\n${textOf(found.errorInstance)}`)
  const shrunk = await fc.check(property, {
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

/** Plays a story. @throws Error that lists all commands */
export async function recount(done: readonly string[], story: () => Promise<void>): Promise<void> {
  try {
    await story()
  } catch (error) {
    throw new Error(`${done.join('\n')}\n${(error as Error).message}`, { cause: error })
  }
}

/** Of all calls of a process. With more, the orders of commands would explain anything. */
const UNAVAILABLE_MAX = 10

let unavailable = 0

/** The outcome of a call: its result, or the reason of its refusal. */
export async function answerOf(call: Promise<string>): Promise<string> {
  try {
    return await call
  } catch (error) {
    const [info] = ConnectError.from(error).findDetails(ErrorInfoSchema)
    if (info === undefined) throw error
    // A busy machine makes the database unavailable now and then.
    if (info.reason === 'unavailable') unavailable += 1
    if (unavailable > UNAVAILABLE_MAX) throw error
    return info.reason
  }
}

/** A possible outcome of a command. */
export type Steps<World, Command> = (
  world: World,
  command: Command,
) => readonly { readonly world: World; readonly answer: string }[]

/** The possible worlds after concurrent commands: one for each order in which the commands have these results. */
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
    outcomes(step(world, command), world, answers[index]!).flatMap((next) =>
      orders(step, next.world, commands.toSpliced(index, 1), answers.toSpliced(index, 1)),
    ),
  )
}

/** The outcomes that explain an answer. A call that the database did not serve in time was carried out, or was not. */
function outcomes<World>(
  all: ReturnType<Steps<World, unknown>>,
  world: World,
  answer: string,
): readonly { readonly world: World }[] {
  return answer === 'unavailable'
    ? [{ world }, ...all]
    : all.filter((next) => next.answer === answer)
}
