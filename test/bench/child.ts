import { fork } from 'node:child_process'
import { once } from 'node:events'
import type { Bench } from './bench.ts'

/** A program that runs in a process of its own: it opens what it needs, then runs one command at a time. */
type Program<Options, Ready, Command, Output> = (options: Options) => Promise<{
  readonly ready: Ready
  run?(command: Command): Promise<Output>
}>

/** The program, seen from its parent. */
export interface Child<Ready, Command, Output> {
  readonly ready: Ready
  readonly pid: number
  /** Rejects if the command fails or exceeds the time limit. */
  run(command: Command, limitMs?: number): Promise<Output>
}

type Message = { readonly value: unknown } | { readonly failure: string }

const LIMIT_MS = 180_000

/**
 * Starts a program, so that it has a core of its own. It is killed when the benchmark ends, at the latest.
 *
 * @param file the module that exports it
 */
export async function startChild<Options, Ready, Command, Output>(
  bench: Bench,
  file: string,
  program: Program<Options, Ready, Command, Output>,
  options: Options,
): Promise<Child<Ready, Command, Output>> {
  const child = fork(import.meta.filename, [file, program.name], {
    serialization: 'advanced',
    execArgv: [],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  const gone = once(child, 'exit')
  bench.onEnd(async () => {
    child.kill('SIGKILL')
    await gone
  })
  const ask = async (message: unknown, limitMs = LIMIT_MS): Promise<unknown> => {
    const answered = once(child, 'message', { signal: AbortSignal.timeout(limitMs) })
    const ended = gone.then(() => Promise.reject(new Error('the process ended')))
    const answer = Promise.race([answered, ended]).catch((error: Error) => {
      throw new Error(`${program.name}: ${error.message}`)
    })
    child.send({ message })
    const [received] = (await answer) as [Message]
    if ('failure' in received) throw new Error(`${program.name}: ${received.failure}`)
    return received.value
  }
  return {
    ready: (await ask(options)) as Ready,
    pid: child.pid as number,
    run(command, limitMs) {
      const output = ask(command, limitMs) as Promise<Output>
      // It may fail before it is awaited.
      output.catch(() => undefined)
      return output
    },
  }
}

/** The child's side. It ends with its parent. */
function serve(file: string, name: string): void {
  let opened: Awaited<ReturnType<Program<unknown, unknown, unknown, unknown>>> | undefined
  const handle = async (message: unknown): Promise<unknown> => {
    if (opened !== undefined) return opened.run?.(message)
    opened = await (await import(file))[name](message)
    return opened?.ready
  }
  const send = (message: Message) => process.send?.(message)
  process.on('disconnect', () => process.exit())
  process.on('message', ({ message }: { readonly message: unknown }) => {
    handle(message).then(
      (value) => send({ value }),
      (error: unknown) => send({ failure: error instanceof Error ? `${error.stack}` : `${error}` }),
    )
  })
}

const [, main, file, name] = process.argv
if (main === import.meta.filename) serve(file as string, name as string)
