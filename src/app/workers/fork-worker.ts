import cluster, { type Worker } from 'node:cluster'
import { getCompileCacheDir } from 'node:module'
import type { Logger } from 'pino'
import type { StartOrder, ToPrimary, ToWorker } from './messages.ts'

/** A worker that is not ready after this time is killed. */
const START_TIMEOUT_MS = 60_000

interface Options {
  /** The program of the worker. */
  readonly exec: string
  readonly order: StartOrder
  readonly log: Logger
  readonly onMessage: (message: ToPrimary) => void
  /** Called once, after the last message. */
  readonly onEnd: (reason: string) => void
}

/** Starts a worker process. */
export function forkWorker({ exec, order, log, onMessage, onEnd }: Options): Worker {
  // The number is an argument only to show in the list of processes.
  cluster.setupPrimary({ exec, args: [`${order.number}`], serialization: 'advanced' })
  // The worker reuses what this process has compiled.
  const worker = cluster.fork({ NODE_COMPILE_CACHE: getCompileCacheDir() })
  const timeout = setTimeout(() => worker.process.kill('SIGKILL'), START_TIMEOUT_MS)
  let ended = false
  const end = (reason: string): void => {
    if (ended) return
    ended = true
    clearTimeout(timeout)
    onEnd(reason)
  }
  worker.on('message', (message: ToPrimary) => {
    if (message.kind === 'ready') clearTimeout(timeout)
    onMessage(message)
  })
  worker.once('exit', (code: number, signal: string | null) => {
    const reason = signal ?? `code ${code}`
    // Its last messages may not have arrived yet.
    if (worker.isConnected()) worker.once('disconnect', () => end(reason))
    else end(reason)
  })
  worker.on('error', (error: Error) => {
    log.warn({ err: error, worker: order.number }, 'cannot reach the worker')
    // A process that never started emits no exit event.
    if (worker.process.pid === undefined) end(error.message)
  })
  sendTo(worker, { kind: 'start', order })
  return worker
}

/** A worker that is about to end may not receive the message. */
export function sendTo(worker: Worker, message: ToWorker): void {
  if (worker.isConnected()) worker.send(message, () => undefined)
}
