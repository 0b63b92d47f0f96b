import { fork } from 'node:child_process'
import { join } from 'node:path'

/** A program of this folder that runs in a process of its own, so that it has a core of its own. */
export interface Program<Ready, Command, Answer> {
  /** What it said when it was ready. */
  readonly ready: Ready
  readonly pid: number
  /** Has it do one thing. Rejects when that fails, or takes longer than the bound. */
  run(command: Command, limitMs: number): Promise<Answer>
  stop(): Promise<void>
}

/** What a program says to its parent. */
export type Told =
  | { readonly kind: 'ready'; readonly value: unknown }
  | { readonly kind: 'answer'; readonly value: unknown }
  | { readonly kind: 'failure'; readonly text: string }

const READY_LIMIT_MS = 30_000

/**
 * Starts a program that was written with `asProgram`.
 *
 * @param file relative to this folder
 */
export async function startProgram<Ready, Command, Answer>(
  file: string,
  options: unknown,
): Promise<Program<Ready, Command, Answer>> {
  const child = fork(join(import.meta.dirname, file), [], {
    serialization: 'advanced',
    execArgv: [],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  const gone = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const listen = (kind: 'ready' | 'answer', limitMs: number): Promise<unknown> =>
    new Promise((resolve, reject) => {
      const finish = (settle: () => void) => {
        clearTimeout(timer)
        child.off('message', onMessage)
        child.off('exit', onExit)
        settle()
      }
      const onExit = () => finish(() => reject(new Error(`${file} ended`)))
      const onMessage = (message: unknown) => {
        const told = message as Told
        if (told.kind === kind) finish(() => resolve(told.value))
        else if (told.kind === 'failure') finish(() => reject(new Error(`${file}: ${told.text}`)))
      }
      const late = () => reject(new Error(`${file}: nothing within ${limitMs} ms`))
      const timer = setTimeout(() => finish(late), limitMs)
      child.on('message', onMessage)
      child.on('exit', onExit)
    })
  const stop = async (): Promise<void> => {
    child.kill('SIGKILL')
    await gone
  }
  try {
    const opened = listen('ready', READY_LIMIT_MS)
    child.send({ options })
    const ready = (await opened) as Ready
    return {
      ready,
      pid: child.pid as number,
      run: (command, limitMs) => {
        const answer = listen('answer', limitMs)
        child.send({ command })
        return answer as Promise<Answer>
      },
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}
