import { type ChildProcess, fork } from 'node:child_process'
import { getCompileCacheDir } from 'node:module'
import { resolve } from 'node:path'
import type { Logger } from 'pino'
import { backoffMs } from '../core/backoff.ts'
import type { FromWorker, ToWorker, WorkerOrder } from './worker.ts'

interface Options {
  /** The order of each worker. */
  readonly orders: readonly WorkerOrder[]
  readonly log: Logger
  /** Called with one line for each fault if all workers have ended and none can be started. */
  readonly onFailure: (faults: readonly string[]) => void
}

/** Worker processes that listen on the same ports. */
interface Workers {
  /** Makes the workers read the certificates again. */
  reload(): void
  /** Reports that the service is about to stop. The workers continue to serve, and are still replaced. */
  announceStop(): void
  /** Stops the workers after they have finished the work in progress. */
  close(): Promise<void>
}

/** Thrown if no worker can be started; the message has one line for each fault. */
class Unstartable extends Error {
  override readonly name = 'Unstartable'
  readonly faults: readonly string[]

  constructor(faults: readonly string[]) {
    super(faults.join('\n'))
    this.faults = faults
  }
}

/** A worker that is not ready after this time is killed. */
const START_TIMEOUT_MS = 60_000

/** The number of consecutive failed starts after which the supervisor gives up if no worker serves. */
const FAILURES_MAX = 5

/** The wait before a worker is replaced that ran for less than LONG_MS. */
const BACKOFF = { minMs: 100, maxMs: 30_000 }
const LONG_MS = 10_000

/** A place for one worker at a time. */
interface Slot {
  readonly order: WorkerOrder
  child: ChildProcess | undefined
  isReady: boolean
  startedAtMs: number
  /** The number of consecutive workers that ran for less than LONG_MS. */
  shortLives: number
  /** The reasons why the worker cannot start. */
  faults: readonly string[]
  /** The timer until the worker is replaced. */
  pause: NodeJS.Timeout | undefined
}

/**
 * Starts the workers, and returns when all of them serve. Each is a complete instance that listens by itself: the kernel
 * distributes the connections among them (SO_REUSEPORT), and no connection goes through this process. A worker that ends is
 * replaced. A worker that hangs keeps its share of new connections until it is killed.
 *
 * @throws Unstartable
 */
export async function superviseWorkers({ orders, log, onFailure }: Options): Promise<Workers> {
  const slots = orders.map(
    (order): Slot => ({
      order,
      child: undefined,
      isReady: false,
      startedAtMs: 0,
      shortLives: 0,
      faults: [],
      pause: undefined,
    }),
  )
  const allReady = Promise.withResolvers<void>()
  const allEnded = Promise.withResolvers<void>()
  let state: 'starting' | 'serving' | 'stopping' = 'starting'
  let isAnnounced = false
  let hasServed = false
  let failedInRow = 0

  const start = (slot: Slot): void => {
    slot.pause = undefined
    slot.faults = []
    slot.startedAtMs = performance.now()
    slot.child = forkWorker(slot.order, {
      onReady: () => join(slot),
      onFaults: (faults) => {
        slot.faults = faults
      },
      onEnd: (reason) => replace(slot, reason),
    })
  }
  const join = (slot: Slot): void => {
    slot.isReady = true
    hasServed = true
    failedInRow = 0
    const { number, ports } = slot.order
    const fields = { worker: number, workerPid: slot.child?.pid, ops_port: ports.opsPort }
    log.info(fields, 'worker ready')
    if (isAnnounced) send(slot.child, 'announce stop')
    if (slots.every(({ isReady }) => isReady)) allReady.resolve()
    const others = slots.filter(({ child, pause }) => child === undefined && pause === undefined)
    for (const other of others) start(other)
  }
  const replace = (slot: Slot, reason: string): void => {
    const { isReady: wasReady, faults, order } = slot
    const livedMs = Math.round(performance.now() - slot.startedAtMs)
    slot.child = undefined
    slot.isReady = false
    if (state === 'stopping') {
      if (slots.every(({ child }) => child === undefined)) allEnded.resolve()
      return
    }
    failedInRow = wasReady ? 0 : failedInRow + 1
    slot.shortLives = wasReady && livedMs > LONG_MS ? 0 : slot.shortLives + 1
    // While another worker serves, keep trying to replace this worker.
    const isServed = state === 'serving' && slots.some(({ isReady }) => isReady)
    if (!hasServed || (failedInRow >= FAILURES_MAX && !isServed)) {
      giveUp(faults.length > 0 ? faults : [`worker ${order.number} ended (${reason})`])
      return
    }
    const fields = { worker: order.number, reason, livedMs, faults }
    log.error(fields, 'worker ended: starting a replacement')
    const pauseMs = slot.shortLives === 0 ? 0 : backoffMs(slot.shortLives, BACKOFF)
    slot.pause = setTimeout(start, pauseMs, slot)
  }
  const giveUp = (faults: readonly string[]): void => {
    if (state === 'starting') allReady.reject(new Unstartable(faults))
    else onFailure(faults)
  }
  const broadcast = (message: ToWorker): void => {
    for (const { child } of slots) send(child, message)
  }
  const close = (): Promise<void> => {
    state = 'stopping'
    for (const { pause } of slots) clearTimeout(pause)
    broadcast('stop')
    if (slots.every(({ child }) => child === undefined)) allEnded.resolve()
    return allEnded.promise
  }

  // Kill workers that do not stop in time when this process exits.
  process.once('exit', () => {
    for (const { child } of slots) child?.kill('SIGKILL')
  })
  // Start one worker first, so that a setting that prevents every start is reported once.
  start(slots[0] as Slot)
  try {
    await allReady.promise
  } catch (error) {
    await close()
    throw error
  }
  state = 'serving'
  return {
    reload: () => broadcast('reload'),
    announceStop() {
      isAnnounced = true
      broadcast('announce stop')
    },
    close,
  }
}

interface Events {
  readonly onReady: () => void
  readonly onFaults: (faults: readonly string[]) => void
  /** Called once, after the last message. */
  readonly onEnd: (reason: string) => void
}

const PROGRAM = resolve(import.meta.dirname, 'worker.ts')

function forkWorker(order: WorkerOrder, { onReady, onFaults, onEnd }: Events): ChildProcess {
  // The number is an argument only so that the process list shows it. Workers use the compile cache of this process.
  const child = fork(PROGRAM, [`${order.number}`], {
    env: { ...process.env, NODE_COMPILE_CACHE: getCompileCacheDir() },
  })
  const timeout = setTimeout(() => child.kill('SIGKILL'), START_TIMEOUT_MS)
  const ended = Promise.withResolvers<string>()
  void ended.promise.then((reason) => {
    clearTimeout(timeout)
    onEnd(reason)
  })
  child.on('message', (message: FromWorker) => {
    clearTimeout(timeout)
    if (message === 'ready') onReady()
    else onFaults(message.faults)
  })
  child.once('exit', (code, signal) => {
    const reason = signal ?? `code ${code}`
    // The last messages of the worker may not have arrived yet.
    if (child.connected) child.once('disconnect', () => ended.resolve(reason))
    else ended.resolve(reason)
  })
  child.on('error', (error) => {
    // A process that never started emits no 'exit'.
    if (child.pid === undefined) ended.resolve(error.message)
  })
  send(child, order)
  return child
}

/** A worker that is about to end may not get the message. */
function send(child: ChildProcess | undefined, message: ToWorker): void {
  if (child?.connected) child.send(message, () => undefined)
}
