import { resolve } from 'node:path'
import type { Logger } from 'pino'
import { createMetricsAggregator } from './aggregate-metrics.ts'
import type { StartOrder, ToPrimary } from './messages.ts'
import { createWorkerPool, type Unstartable } from './worker-pool.ts'

interface Options {
  readonly workers: number
  readonly order: Omit<StartOrder, 'number'>
  readonly log: Logger
  /** No worker is left, and none can be started. */
  readonly lost: (error: Unstartable) => void
}

/** Workers that serve at the same ports. */
export interface Workers {
  /** Has them read certificates again. */
  reload(): void
  /** Has them finish what is under way, and end. */
  close(): Promise<void>
}

const EXEC = resolve(import.meta.dirname, 'worker.ts')

/**
 * Starts the workers and returns when all of them listen. They accept connections for themselves; this
 * process passes on what they tell each other, and serves nobody.
 *
 * Each is an instance like any other. What one of them does for all, as it gains nothing from being
 * done by several processes of one machine, is given to the first that is ready, and to another as
 * soon as that one has ended. Messages are hints: one that is lost costs a poll.
 *
 * @throws Unstartable
 */
export async function startWorkers({ workers, order, log, lost }: Options): Promise<Workers> {
  let background: number | undefined
  const assign = (): void => {
    if (background !== undefined) return
    background = team.ready()[0]
    if (background === undefined) return
    log.info({ worker: background }, 'does the background work')
    team.tell(background, { kind: 'background' })
  }
  const heard = (number: number, message: ToPrimary): void => {
    switch (message.kind) {
      case 'published':
        if (background !== undefined) team.tell(background, message)
        break
      case 'deliveries':
        for (const other of team.ready()) if (other !== number) team.tell(other, message)
        break
      case 'measured':
        gather.heard(number, message.id, message.metrics)
        break
      case 'gather':
        void gather
          .all()
          .then((parts) => team.tell(number, { kind: 'gathered', id: message.id, parts }))
          .catch((error: unknown) => log.warn({ err: error }, 'metrics not gathered'))
        break
    }
  }
  const team = createWorkerPool({
    size: workers,
    exec: EXEC,
    order,
    log,
    heard,
    joined: assign,
    left(number) {
      gather.left(number)
      if (number !== background) return
      background = undefined
      assign()
    },
    lost,
  })
  const gather = createMetricsAggregator({
    workers: team.ready,
    ask: (number, id) => team.tell(number, { kind: 'measure', id }),
  })
  try {
    await team.start()
    return { reload: () => team.tellAll({ kind: 'reload' }), close: team.stop }
  } catch (error) {
    await team.stop()
    throw error
  }
}
