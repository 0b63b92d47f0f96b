import cluster, { type Worker } from 'node:cluster'
import { getCompileCacheDir } from 'node:module'
import type { Logger } from 'pino'
import { backoffMs } from '../../core/backoff.ts'
import type { StartOrder, ToPrimary, ToWorker } from './messages.ts'

/** The worker processes. A worker that ends is replaced. */
export interface WorkerPool {
  /** Starts one worker, and the others when it listens. Throws `Unstartable` if none can start. */
  start(): Promise<void>
  /** The numbers of the workers that serve. */
  ready(): readonly number[]
  send(number: number, message: ToWorker): void
  broadcast(message: ToWorker): void
  /** Resolves when all workers have ended. No worker is replaced any more. */
  stop(): Promise<void>
}

interface Options {
  readonly size: number
  /** The program of a worker. */
  readonly exec: string
  readonly order: Omit<StartOrder, 'number'>
  readonly log: Logger
  readonly onMessage: (number: number, message: ToPrimary) => void
  readonly onReady: (number: number) => void
  readonly onExit: (number: number) => void
  /** Called when no worker is left and none can be started, but not during `start`. */
  readonly onFailure: (error: Unstartable) => void
}

/** Workers cannot be started; one line for each fault. */
export class Unstartable extends Error {
  override readonly name = 'Unstartable'
  readonly faults: readonly string[]

  constructor(faults: readonly string[]) {
    super(faults.join('\n'))
    this.faults = faults
  }
}

/** A worker that is not ready after this time is killed. */
const START_TIMEOUT_MS = 60_000

/** Failed starts in a row after which the pool gives up, while no worker serves. */
const FAILURES_MAX = 5

/** The wait before the replacement of a worker that lived shorter than LONG_MS. */
const BACKOFF = { minMs: 100, maxMs: 30_000 }
const LONG_MS = 10_000

/** A slot of the pool and its worker. */
interface Slot {
  readonly number: number
  worker: Worker | undefined
  ready: boolean
  startedAtMs: number
  /** How many workers in a row lived shorter than LONG_MS. */
  shortLives: number
  /** Why its worker cannot start. */
  faults: readonly string[]
  timer: NodeJS.Timeout | undefined
}

export function createWorkerPool(options: Options): WorkerPool {
  const { size, exec, order, log, onMessage, onReady, onExit } = options
  const slots = Array.from({ length: size }, (_, index): Slot => {
    const number = index + 1
    const none = { worker: undefined, timer: undefined, faults: [] }
    return { number, ...none, ready: false, startedAtMs: 0, shortLives: 0 }
  })
  /** Whether any worker has served. */
  let served = false
  let failedInRow = 0
  let stopping = false
  let starting: { done(): void; fail(error: Unstartable): void } | undefined
  let ended: (() => void) | undefined

  const startWorker = (slot: Slot): void => {
    slot.timer = undefined
    slot.startedAtMs = performance.now()
    slot.faults = []
    // The number is an argument only to show in the list of processes.
    cluster.setupPrimary({ exec, args: [`${slot.number}`], serialization: 'advanced' })
    // The worker reuses what this process has compiled.
    const worker = cluster.fork({ NODE_COMPILE_CACHE: getCompileCacheDir() })
    slot.worker = worker
    const end = (reason: string): void => {
      if (slot.worker !== worker) return
      clearTimeout(timeout)
      replace(slot, reason)
    }
    const timeout = setTimeout(() => worker.process.kill('SIGKILL'), START_TIMEOUT_MS)
    worker.on('message', (message: ToPrimary) => {
      if (message.kind === 'ready') clearTimeout(timeout)
      receive(slot, message)
    })
    worker.once('exit', (code: number, signal: string | null) => {
      const reason = signal ?? `code ${code}`
      // Its last messages may not have arrived yet.
      if (worker.isConnected()) worker.once('disconnect', () => end(reason))
      else end(reason)
    })
    worker.on('error', (error: Error) => {
      log.warn({ err: error, worker: slot.number }, 'cannot reach the worker')
      // A process that never started emits no exit event.
      if (worker.process.pid === undefined) end(error.message)
    })
    send(worker, { kind: 'start', order: { ...order, number: slot.number } })
  }
  const receive = (slot: Slot, message: ToPrimary): void => {
    if (message.kind === 'failed') slot.faults = message.faults
    else if (message.kind === 'ready') joined(slot)
    else onMessage(slot.number, message)
  }
  const joined = (slot: Slot): void => {
    served = true
    slot.ready = true
    failedInRow = 0
    log.info({ worker: slot.number, workerPid: slot.worker?.process.pid }, 'worker ready')
    onReady(slot.number)
    if (slots.every(({ ready }) => ready)) starting?.done()
    else for (const other of slots) if (isEmpty(other)) startWorker(other)
  }
  const replace = (slot: Slot, reason: string): void => {
    const { number, ready, faults } = slot
    const livedMs = Math.round(performance.now() - slot.startedAtMs)
    slot.worker = undefined
    slot.ready = false
    if (stopping) {
      if (slots.every(({ worker }) => worker === undefined)) ended?.()
      return
    }
    if (ready) onExit(number)
    failedInRow = ready ? 0 : failedInRow + 1
    slot.shortLives = ready && livedMs > LONG_MS ? 0 : slot.shortLives + 1
    // While other workers serve, the pool tries for ever to replace this one.
    const serves = starting === undefined && slots.some((each) => each.ready)
    if (!served || (failedInRow >= FAILURES_MAX && !serves)) {
      giveUp(new Unstartable(faults.length > 0 ? faults : [`worker ${number} ended (${reason})`]))
      return
    }
    log.error({ worker: number, reason, livedMs, faults }, 'worker ended: starting a replacement')
    const pauseMs = slot.shortLives === 0 ? 0 : backoffMs(slot.shortLives, BACKOFF)
    slot.timer = setTimeout(() => startWorker(slot), pauseMs)
  }
  const giveUp = (error: Unstartable): void => {
    if (starting) starting.fail(error)
    else options.onFailure(error)
  }
  const sendTo = (number: number, message: ToWorker): void => {
    const worker = slots[number - 1]?.worker
    if (worker) send(worker, message)
  }
  return {
    async start() {
      // Workers accept on shared sockets. No connection goes through this process, so none waits for a
      // worker that hangs or was killed: the next free worker takes it.
      cluster.schedulingPolicy = cluster.SCHED_NONE
      try {
        await new Promise<void>((resolve, reject) => {
          starting = { done: resolve, fail: reject }
          // One first: settings that no worker can start with are reported once.
          startWorker(slots[0] as Slot)
        })
      } finally {
        starting = undefined
      }
    },
    ready: () => slots.filter(({ ready }) => ready).map(({ number }) => number),
    send: sendTo,
    broadcast(message) {
      for (const { number } of slots) sendTo(number, message)
    },
    stop() {
      stopping = true
      for (const { timer } of slots) clearTimeout(timer)
      return new Promise((resolve) => {
        ended = resolve
        for (const { number } of slots) sendTo(number, { kind: 'stop' })
        if (slots.every(({ worker }) => worker === undefined)) resolve()
      })
    },
  }
}

function isEmpty({ worker, timer }: Slot): boolean {
  return worker === undefined && timer === undefined
}

/** A worker that is about to end may not receive the message. */
function send(worker: Worker, message: ToWorker): void {
  if (worker.isConnected()) worker.send(message, () => undefined)
}
