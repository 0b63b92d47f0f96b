import { fork } from 'node:child_process'
import { join } from 'node:path'
import type { Bench } from './bench.ts'
import type { LoadCommand, LoadResult } from './load/run-callers.ts'

/** A program of this folder in a process of its own, so that it has a core of its own. */
export interface ChildProcess<Ready, Command, Output> {
  /** What the child reported when it was ready. */
  readonly ready: Ready
  readonly pid: number
  /** Sends one command. Rejects if it fails or exceeds the time limit. */
  run(command: Command, limitMs: number): Promise<Output>
  stop(): Promise<void>
}

/** A message from the child to its parent. */
export type ChildMessage =
  | { readonly kind: 'ready'; readonly value: unknown }
  | { readonly kind: 'output'; readonly value: unknown }
  | { readonly kind: 'failure'; readonly text: string }

const READY_LIMIT_MS = 60_000

/**
 * Starts a program whose entry is `childProcessMain`. It is killed when the benchmark ends, at the latest.
 *
 * @param file relative to this folder
 */
export async function startChildProcess<Ready, Command, Output>(
  bench: Bench,
  file: string,
  options: unknown,
): Promise<ChildProcess<Ready, Command, Output>> {
  const child = fork(join(import.meta.dirname, file), [], {
    serialization: 'advanced',
    execArgv: [],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const listen = (kind: 'ready' | 'output', limitMs: number): Promise<unknown> =>
    new Promise((resolve, reject) => {
      const finish = (complete: () => void) => {
        clearTimeout(timer)
        child.off('message', onMessage)
        child.off('exit', onExit)
        complete()
      }
      const onExit = () => finish(() => reject(new Error(`${file} ended`)))
      const onMessage = (message: unknown) => {
        const received = message as ChildMessage
        if (received.kind === kind) finish(() => resolve(received.value))
        else if (received.kind === 'failure')
          finish(() => reject(new Error(`${file}: ${received.text}`)))
      }
      const onTimeout = () => reject(new Error(`${file}: no message within ${limitMs} ms`))
      const timer = setTimeout(() => finish(onTimeout), limitMs)
      child.on('message', onMessage)
      child.on('exit', onExit)
    })
  const stop = async (): Promise<void> => {
    child.kill('SIGKILL')
    await exited
  }
  bench.onEnd(stop)
  try {
    const opened = listen('ready', READY_LIMIT_MS)
    child.send({ options })
    const ready = (await opened) as Ready
    return {
      ready,
      pid: child.pid as number,
      run: (command, limitMs) => {
        const output = listen('output', limitMs)
        child.send({ command })
        return output as Promise<Output>
      },
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Starts a generator of load that makes calls as fast as it can. */
export const startLoad = (bench: Bench, file: string, options: unknown) =>
  startChildProcess<undefined, LoadCommand, LoadResult>(bench, file, options)
