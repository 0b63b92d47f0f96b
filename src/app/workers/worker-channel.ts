import type { Registry } from 'prom-client'
import { expose } from './aggregate-metrics.ts'
import type { Measured, StartOrder, ToPrimary, ToWorker } from './messages.ts'
import { endpointShare } from './share-limits.ts'

interface Exposition {
  readonly contentType: string
  metrics(): Promise<string>
}

/** A worker's tie to the others of its machine, with whom it shares work and limits. */
export interface WorkerChannel {
  /** Own commits added events: whoever does the background work is told. Cheap. */
  onCommit(): void
  /** Webhooks are due: the others are told, too. Cheap. */
  deliveriesDue(): void
  /** How many of the requests that an endpoint may get at once are this worker's to make. */
  concurrencyOf(endpointId: string, concurrency: number): number
  /** All workers' metrics together, and beside them those that are the same at every worker. */
  exposition(own: Registry, common: Registry): Exposition
}

/** What the others have this worker do. */
export interface WorkerHandlers {
  startBackground(): void
  /** Commits of another worker added events. */
  onCommit(): void
  deliveriesDue(): void
  measure(): Promise<unknown>
  reload(): void
}

/** The worker's side of its channel to the first process. */
export interface PrimaryChannel extends WorkerChannel {
  /** Says that it serves, and does from now on as it is told. */
  ready(obeying: WorkerHandlers): void
}

interface Channel {
  readonly order: StartOrder
  readonly workers: number
  readonly send: (message: ToPrimary) => void
  readonly onMessage: (heard: (message: ToWorker) => void) => void
  readonly gatherMs?: number
}

/** More than the first process waits for the others. */
const GATHER_MS = 1_500

/** Of an event that comes many times in a turn, one message is sent at its end. */
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

export function createPrimaryChannel(channel: Channel): PrimaryChannel {
  const { order, workers, send, onMessage, gatherMs = GATHER_MS } = channel
  const gathering = new Map<number, (parts: readonly Measured[]) => void>()
  let ids = 0

  /** @returns nothing when there is no answer in time */
  const gather = (): Promise<readonly Measured[]> =>
    new Promise((resolve) => {
      ids += 1
      const id = ids
      const done = (parts: readonly Measured[]): void => {
        clearTimeout(timer)
        gathering.delete(id)
        resolve(parts)
      }
      const timer = setTimeout(done, gatherMs, [])
      gathering.set(id, done)
      send({ kind: 'gather', id })
    })
  return {
    onCommit: once(() => send({ kind: 'published' })),
    deliveriesDue: once(() => send({ kind: 'deliveries' })),
    concurrencyOf: (endpointId, concurrency) =>
      endpointShare({ number: order.number, workers }, endpointId, concurrency),
    exposition: (own, common) => ({
      contentType: own.contentType,
      async metrics() {
        const parts = await gather()
        const sums = parts.length > 0 ? await expose(parts) : await own.metrics()
        return `${sums}\n${await common.metrics()}`
      },
    }),
    ready(obeying) {
      onMessage((message) => {
        switch (message.kind) {
          case 'background':
            obeying.startBackground()
            break
          case 'published':
            obeying.onCommit()
            break
          case 'deliveries':
            obeying.deliveriesDue()
            break
          case 'measure':
            void obeying
              .measure()
              .then((metrics) =>
                send({ kind: 'measured', id: message.id, metrics: metrics as Measured }),
              )
            break
          case 'gathered':
            gathering.get(message.id)?.(message.parts)
            break
          case 'reload':
            obeying.reload()
            break
        }
      })
      send({ kind: 'ready' })
    },
  }
}
