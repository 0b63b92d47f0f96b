import cluster, { type Worker } from 'node:cluster'
import { getCompileCacheDir } from 'node:module'
import type { Logger } from 'pino'
import { backoffMs } from '../../core/backoff.ts'
import type { StartOrder, ToPrimary, ToWorker } from './messages.ts'

/** The processes that serve. One that dies is replaced. */
export interface WorkerPool {
  /** Starts one worker, and when it listens the others. Throws `Unstartable` when none can. */
  start(): Promise<void>
  /** The numbers of those that serve. */
  ready(): readonly number[]
  tell(number: number, message: ToWorker): void
  tellAll(message: ToWorker): void
  /** Resolves when all of them have ended. None is replaced any more. */
  stop(): Promise<void>
}

interface Options {
  readonly size: number
  /** The program of a worker. */
  readonly exec: string
  readonly order: Omit<StartOrder, 'number'>
  readonly log: Logger
  readonly heard: (number: number, message: ToPrimary) => void
  readonly joined: (number: number) => void
  readonly left: (number: number) => void
  /** No worker is left, and none can be started. Not called while `start` is under way. */
  readonly lost: (error: Unstartable) => void
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

/** Past this, a worker that is not ready is ended. */
const START_MS = 60_000

/** AttemptRunner to start that fail in a row before it is given up: at first, or when nobody serves. */
const FAILED_MAX = 5

/** Before a worker is replaced that did not live long; longer with each in a row. */
const BACKOFF = { minMs: 100, maxMs: 30_000 }
const LONG_MS = 10_000

/** A place in the team, and who has it. */
interface Place {
  readonly number: number
  worker: Worker | undefined
  ready: boolean
  startedAtMs: number
  /** Short lives in a row. */
  short: number
  /** What its worker said it cannot start for. */
  faults: readonly string[]
  timer: NodeJS.Timeout | undefined
}

export function createWorkerPool(options: Options): WorkerPool {
  const { size, exec, order, log, heard, joined, left } = options
  const places = Array.from({ length: size }, (_, index): Place => {
    const number = index + 1
    const none = { worker: undefined, timer: undefined, faults: [] }
    return { number, ...none, ready: false, startedAtMs: 0, short: 0 }
  })
  /** Whether the first worker has come to serve. */
  let served = false
  let failedInRow = 0
  let stopping = false
  let settle: { done(): void; fail(error: Unstartable): void } | undefined
  let ended: (() => void) | undefined

  const begin = (place: Place): void => {
    place.timer = undefined
    place.startedAtMs = performance.now()
    place.faults = []
    // The number is for people who look at the list of processes.
    cluster.setupPrimary({ exec, args: [`${place.number}`], serialization: 'advanced' })
    // What this process has compiled need not be compiled again.
    const worker = cluster.fork({ NODE_COMPILE_CACHE: getCompileCacheDir() })
    place.worker = worker
    const end = (how: string): void => {
      if (place.worker !== worker) return
      clearTimeout(late)
      over(place, how)
    }
    const late = setTimeout(() => worker.process.kill('SIGKILL'), START_MS)
    worker.on('message', (message: ToPrimary) => {
      if (message.kind === 'ready') clearTimeout(late)
      hear(place, message)
    })
    worker.once('exit', (code: number, signal: string | null) => {
      const how = signal ?? `code ${code}`
      // What it said last may still be on its way.
      if (worker.isConnected()) worker.once('disconnect', () => end(how))
      else end(how)
    })
    worker.on('error', (error: Error) => {
      log.warn({ err: error, worker: place.number }, 'worker not reached')
      // One that never came to be has no end to tell of.
      if (worker.process.pid === undefined) end(error.message)
    })
    send(worker, { kind: 'start', order: { ...order, number: place.number } })
  }
  const hear = (place: Place, message: ToPrimary): void => {
    if (message.kind === 'failed') place.faults = message.faults
    else if (message.kind === 'ready') welcome(place)
    else heard(place.number, message)
  }
  const welcome = (place: Place): void => {
    served = true
    place.ready = true
    failedInRow = 0
    log.info({ worker: place.number, workerPid: place.worker?.process.pid }, 'worker ready')
    joined(place.number)
    if (places.every(({ ready }) => ready)) settle?.done()
    else for (const other of places) if (isEmpty(other)) begin(other)
  }
  const over = (place: Place, how: string): void => {
    const { number, ready, faults } = place
    const livedMs = Math.round(performance.now() - place.startedAtMs)
    place.worker = undefined
    place.ready = false
    if (stopping) {
      if (places.every(({ worker }) => worker === undefined)) ended?.()
      return
    }
    if (ready) left(number)
    failedInRow = ready ? 0 : failedInRow + 1
    place.short = ready && livedMs > LONG_MS ? 0 : place.short + 1
    // While others serve, they go on doing so, and it is tried again and again.
    const serves = settle === undefined && places.some((each) => each.ready)
    if (!served || (failedInRow >= FAILED_MAX && !serves)) {
      giveUp(new Unstartable(faults.length > 0 ? faults : [`worker ${number} ended (${how})`]))
      return
    }
    log.error({ worker: number, how, livedMs, faults }, 'a worker ended; another takes its place')
    const pauseMs = place.short === 0 ? 0 : backoffMs(place.short, BACKOFF)
    place.timer = setTimeout(() => begin(place), pauseMs)
  }
  const giveUp = (error: Unstartable): void => {
    if (settle) settle.fail(error)
    else options.lost(error)
  }
  const tell = (number: number, message: ToWorker): void => {
    const worker = places[number - 1]?.worker
    if (worker) send(worker, message)
  }
  return {
    async start() {
      // Workers accept on the sockets that they share. No connection goes through this process, so none
      // waits for a worker that hangs or was killed: the next free one takes it.
      cluster.schedulingPolicy = cluster.SCHED_NONE
      try {
        await new Promise<void>((resolve, reject) => {
          settle = { done: resolve, fail: reject }
          // Its faults are told as those of one process would be, before there are more of them.
          begin(places[0] as Place)
        })
      } finally {
        settle = undefined
      }
    },
    ready: () => places.filter(({ ready }) => ready).map(({ number }) => number),
    tell,
    tellAll(message) {
      for (const { number } of places) tell(number, message)
    },
    stop() {
      stopping = true
      for (const { timer } of places) clearTimeout(timer)
      return new Promise((resolve) => {
        ended = resolve
        for (const { number } of places) tell(number, { kind: 'stop' })
        if (places.every(({ worker }) => worker === undefined)) resolve()
      })
    },
  }
}

function isEmpty({ worker, timer }: Place): boolean {
  return worker === undefined && timer === undefined
}

/** A worker that is about to end may not hear it. */
function send(worker: Worker, message: ToWorker): void {
  if (worker.isConnected()) worker.send(message, () => undefined)
}
