import cluster, { type Worker } from 'node:cluster'
import type { Logger } from 'pino'
import { backoffMs } from '../../core/backoff.ts'
import { forkWorker, sendTo } from './fork-worker.ts'
import type { StartOrder, ToPrimary, ToWorker } from './messages.ts'

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

/** The worker processes. A worker that ends is replaced. */
export class WorkerPool {
  readonly #options: Options
  readonly #slots: readonly Slot[]
  /** Whether any worker has served. */
  #served = false
  #failedInRow = 0
  #announced = false
  #stopping = false
  #starting: { done(): void; fail(error: Unstartable): void } | undefined
  #ended: (() => void) | undefined

  constructor(options: Options) {
    this.#options = options
    this.#slots = Array.from({ length: options.size }, (_, index): Slot => {
      const none = { worker: undefined, timer: undefined, faults: [] }
      return { number: index + 1, ...none, ready: false, startedAtMs: 0, shortLives: 0 }
    })
  }

  /** Starts one worker, and the others when it listens. Throws `Unstartable` if none can start. */
  async start(): Promise<void> {
    // Workers accept on shared sockets. No connection goes through this process, so none waits for a
    // worker that hangs or was killed: the next free worker takes it.
    cluster.schedulingPolicy = cluster.SCHED_NONE
    try {
      await new Promise<void>((resolve, reject) => {
        this.#starting = { done: resolve, fail: reject }
        // One first: settings that no worker can start with are reported once.
        this.#startWorker(this.#slots[0] as Slot)
      })
    } finally {
      this.#starting = undefined
    }
  }

  /** The numbers of the workers that serve. */
  ready(): readonly number[] {
    return this.#slots.filter(({ ready }) => ready).map(({ number }) => number)
  }

  send(number: number, message: ToWorker): void {
    const worker = this.#slots[number - 1]?.worker
    if (worker) sendTo(worker, message)
  }

  broadcast(message: ToWorker): void {
    for (const { number } of this.#slots) this.send(number, message)
  }

  /** Reports that the service is about to stop. Workers that end are still replaced. */
  announceStop(): void {
    this.#announced = true
    this.broadcast({ kind: 'announce-stop' })
  }

  /** Resolves when all workers have ended. No worker is replaced any more. */
  stop(): Promise<void> {
    this.#stopping = true
    for (const { timer } of this.#slots) clearTimeout(timer)
    return new Promise((resolve) => {
      this.#ended = resolve
      this.broadcast({ kind: 'stop' })
      if (this.#slots.every(({ worker }) => worker === undefined)) resolve()
    })
  }

  #startWorker(slot: Slot): void {
    const { exec, order, log } = this.#options
    slot.timer = undefined
    slot.startedAtMs = performance.now()
    slot.faults = []
    slot.worker = forkWorker({
      exec,
      order: { ...order, number: slot.number },
      log,
      onMessage: (message) => this.#receive(slot, message),
      onEnd: (reason) => this.#replace(slot, reason),
    })
  }

  #receive(slot: Slot, message: ToPrimary): void {
    if (message.kind === 'failed') slot.faults = message.faults
    else if (message.kind === 'ready') this.#joined(slot)
    else this.#options.onMessage(slot.number, message)
  }

  #joined(slot: Slot): void {
    const { log, onReady } = this.#options
    this.#served = true
    slot.ready = true
    this.#failedInRow = 0
    log.info({ worker: slot.number, workerPid: slot.worker?.process.pid }, 'worker ready')
    onReady(slot.number)
    if (this.#announced) this.send(slot.number, { kind: 'announce-stop' })
    if (this.#slots.every(({ ready }) => ready)) this.#starting?.done()
    else for (const other of this.#slots) if (isEmpty(other)) this.#startWorker(other)
  }

  #replace(slot: Slot, reason: string): void {
    const { number, ready, faults } = slot
    const livedMs = Math.round(performance.now() - slot.startedAtMs)
    slot.worker = undefined
    slot.ready = false
    if (this.#stopping) {
      if (this.#slots.every(({ worker }) => worker === undefined)) this.#ended?.()
      return
    }
    const { log, onExit } = this.#options
    if (ready) onExit(number)
    this.#failedInRow = ready ? 0 : this.#failedInRow + 1
    slot.shortLives = ready && livedMs > LONG_MS ? 0 : slot.shortLives + 1
    // While other workers serve, the pool tries for ever to replace this one.
    const serves = this.#starting === undefined && this.#slots.some((each) => each.ready)
    if (!this.#served || (this.#failedInRow >= FAILURES_MAX && !serves)) {
      this.#giveUp(faults.length > 0 ? faults : [`worker ${number} ended (${reason})`])
      return
    }
    log.error({ worker: number, reason, livedMs, faults }, 'worker ended: starting a replacement')
    const pauseMs = slot.shortLives === 0 ? 0 : backoffMs(slot.shortLives, BACKOFF)
    slot.timer = setTimeout(() => this.#startWorker(slot), pauseMs)
  }

  #giveUp(faults: readonly string[]): void {
    const error = new Unstartable(faults)
    if (this.#starting) this.#starting.fail(error)
    else this.#options.onFailure(error)
  }
}

function isEmpty({ worker, timer }: Slot): boolean {
  return worker === undefined && timer === undefined
}
