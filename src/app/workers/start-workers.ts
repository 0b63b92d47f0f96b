import { resolve } from 'node:path'
import type { Logger } from 'pino'
import { shareResult } from '../../core/shared-result.ts'
import { RENDER_INTERVAL_MS } from '../../server/metrics.ts'
import { createMetricsAggregator, expose } from './aggregate-metrics.ts'
import type { StartOrder, ToPrimary } from './messages.ts'
import { type Unstartable, WorkerPool } from './worker-pool.ts'

interface Options {
  readonly workers: number
  readonly order: Omit<StartOrder, 'number'>
  readonly log: Logger
  /** The format of the metrics. */
  readonly openMetrics: boolean
  /** Called when no worker is left and none can be started. */
  readonly onFailure: (error: Unstartable) => void
}

/** Worker processes that listen on the same ports. */
export interface Workers {
  /** Makes the workers read the certificates again. */
  reload(): void
  /** Reports that the service is about to stop; the workers go on serving. */
  announceStop(): void
  /** Stops the workers when they have finished what is in progress. */
  close(): Promise<void>
}

const EXEC = resolve(import.meta.dirname, 'worker.ts')

/**
 * Starts the workers and returns when all of them listen. The workers accept connections themselves;
 * this process only forwards their messages.
 *
 * Each worker is a complete instance. Background work gains nothing from several processes on one
 * machine, so the first worker that is ready does it, and another takes over when that one ends.
 * Messages are hints: a lost message costs one poll interval.
 *
 * @throws Unstartable
 */
export async function startWorkers(options: Options): Promise<Workers> {
  const { workers, order, log, openMetrics, onFailure } = options
  let background: number | undefined
  const assign = (): void => {
    if (background !== undefined) return
    background = pool.ready()[0]
    if (background === undefined) return
    log.info({ worker: background }, 'background work assigned')
    pool.send(background, { kind: 'background' })
  }
  const onMessage = (number: number, message: ToPrimary): void => {
    switch (message.kind) {
      case 'committed':
        if (background !== undefined) pool.send(background, message)
        break
      case 'deliveries-due':
        for (const other of pool.ready()) if (other !== number) pool.send(other, message)
        break
      case 'metrics':
        metrics.onReport(number, message.id, message.metrics)
        break
      case 'collect-metrics':
        void collect()
          .then(({ value: text, atMs }) => {
            const ageMs = performance.now() - atMs
            pool.send(number, { kind: 'collected-metrics', id: message.id, text, ageMs })
          })
          .catch((error: unknown) => log.warn({ err: error }, 'cannot collect metrics'))
        break
    }
  }
  const pool = new WorkerPool({
    size: workers,
    exec: EXEC,
    order,
    log,
    onMessage,
    onReady: assign,
    onExit(number) {
      metrics.onExit(number)
      if (number !== background) return
      background = undefined
      assign()
    },
    onFailure,
  })
  const metrics = createMetricsAggregator({
    workers: () => pool.ready(),
    request: (number, id) => pool.send(number, { kind: 'report-metrics', id }),
  })
  // Scrapes of all workers share one collection.
  const collect = shareResult(async () => {
    const atMs = performance.now()
    return { value: await expose(await metrics.collect(), openMetrics), atMs }
  }, RENDER_INTERVAL_MS)
  try {
    await pool.start()
    return {
      reload: () => pool.broadcast({ kind: 'reload' }),
      announceStop: () => pool.announceStop(),
      close: () => pool.stop(),
    }
  } catch (error) {
    await pool.stop()
    throw error
  }
}
