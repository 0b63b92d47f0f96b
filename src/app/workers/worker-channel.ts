import type { Registry } from 'prom-client'
import { type Dated, shareResult } from '../../core/shared-result.ts'
import { createExposition, RENDER_INTERVAL_MS } from '../../server/metrics.ts'
import type { StartOrder, ToPrimary, ToWorker, WorkerMetrics } from './messages.ts'
import { endpointShare } from './share-limits.ts'

interface Exposition {
  readonly contentType: string
  metrics(): Promise<string>
}

/** A worker's channel to the other workers of its machine: they share work and limits. */
export interface WorkerChannel {
  /** Reports that a commit of this worker added events. Cheap. */
  onCommit(): void
  /** Reports to the other workers that webhooks are due. Cheap. */
  deliveriesDue(): void
  /** How many concurrent requests to an endpoint this worker may make. */
  concurrencyOf(endpointId: string, concurrency: number): number
  /** The aggregated metrics of all workers, and once those that are the same in every worker. */
  exposition(own: Registry, common: Registry): Exposition
}

/** What this worker does on a message. */
export interface WorkerHandlers {
  startBackground(): void
  /** Commits of another worker added events. */
  onCommit(): void
  deliveriesDue(): void
  collectMetrics(): Promise<unknown>
  reload(): void
  announceStop(): void
}

/** The worker's side of its channel to the primary process. */
export interface PrimaryChannel extends WorkerChannel {
  /** Reports that this worker serves, and handles messages from now on. */
  ready(handlers: WorkerHandlers): void
}

interface ChannelOptions {
  readonly order: StartOrder
  readonly workers: number
  readonly send: (message: ToPrimary) => void
  readonly onMessage: (listener: (message: ToWorker) => void) => void
  readonly collectTimeoutMs?: number
}

/** More metrics may follow where it was. */
const END_OF_OPENMETRICS = /# EOF\n$/

/** Longer than the primary process waits for the workers. */
const COLLECT_TIMEOUT_MS = 1_500

/** Sends one message for any number of calls in one turn of the event loop. */
function once(send: () => void): () => void {
  let waiting = false
  return () => {
    if (waiting) return
    waiting = true
    setImmediate(() => {
      waiting = false
      send()
    })
  }
}

export function createPrimaryChannel(options: ChannelOptions): PrimaryChannel {
  const { order, workers, send, onMessage, collectTimeoutMs = COLLECT_TIMEOUT_MS } = options
  const collecting = new Map<number, (collected: Dated<string> | undefined) => void>()
  let ids = 0

  /** @returns undefined if there is no response in time */
  const collect = (): Promise<Dated<string> | undefined> =>
    new Promise((resolve) => {
      ids += 1
      const id = ids
      const done = (collected: Dated<string> | undefined): void => {
        clearTimeout(timer)
        collecting.delete(id)
        resolve(collected)
      }
      const timer = setTimeout(done, collectTimeoutMs, undefined)
      collecting.set(id, done)
      send({ kind: 'collect-metrics', id })
    })
  const handle = (message: ToWorker, handlers: WorkerHandlers): void => {
    if (message.kind === 'background') handlers.startBackground()
    else if (message.kind === 'committed') handlers.onCommit()
    else if (message.kind === 'deliveries-due') handlers.deliveriesDue()
    else if (message.kind === 'reload') handlers.reload()
    else if (message.kind === 'announce-stop') handlers.announceStop()
    else if (message.kind === 'collected-metrics') {
      const { id, text, ageMs } = message
      collecting.get(id)?.({ value: text, atMs: performance.now() - ageMs })
    } else if (message.kind === 'report-metrics') {
      void handlers
        .collectMetrics()
        .then((metrics) =>
          send({ kind: 'metrics', id: message.id, metrics: metrics as WorkerMetrics }),
        )
    }
  }
  return {
    onCommit: once(() => send({ kind: 'committed' })),
    deliveriesDue: once(() => send({ kind: 'deliveries-due' })),
    concurrencyOf: (endpointId, concurrency) =>
      endpointShare({ number: order.number, workers }, endpointId, concurrency),
    exposition: (own, common) => {
      const rendered = createExposition(common)
      // The sums age from their collection on, so that scrapes of several workers agree.
      const read = shareResult(async () => {
        const askedMs = performance.now()
        const sums = (await collect()) ?? { value: await own.metrics(), atMs: askedMs }
        const text = sums.value.replace(END_OF_OPENMETRICS, '') + (await rendered.metrics())
        return { value: text, atMs: sums.atMs }
      }, RENDER_INTERVAL_MS)
      return { contentType: own.contentType, metrics: async () => (await read()).value }
    },
    ready(handlers) {
      onMessage((message) => handle(message, handlers))
      send({ kind: 'ready' })
    },
  }
}
