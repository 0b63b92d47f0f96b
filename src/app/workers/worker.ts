import type { Logger } from 'pino'
import { readConfig } from '../../config/config.ts'
import { secretText } from '../../config/settings.ts'
import { type Database, openDatabase, poolSizes } from '../../postgres/orm.ts'
import { openTls } from '../../server/tls.ts'
import { ENTITIES } from '../entities.ts'
import { flushLog } from '../log.ts'
import { CLOSE_MS, openLog, startFaults, startInstance } from '../start-instance.ts'
import type { Service } from '../start-service.ts'
import type { StartOrder, ToPrimary, ToWorker } from './messages.ts'
import { shareOf } from './share-limits.ts'
import { createPrimaryChannel } from './worker-channel.ts'

/**
 * One of several processes that listen on the same ports: see `start-workers.ts`. When the primary
 * process ends, Node ends this one.
 */
async function work(env: NodeJS.ProcessEnv): Promise<void> {
  // A terminal or supervisor signals all processes; the primary process decides what to do.
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => undefined)
  let stop = (): void => process.exit(0)
  const order = await new Promise<StartOrder>((resolve) => {
    onMessage((message) => {
      if (message.kind === 'start') resolve(message.order)
      else if (message.kind === 'stop') stop()
    })
  })
  try {
    const whole = readConfig(env)
    const log = openLog(whole, secretText(env, 'MASTER_KEY')).child({ worker: order.number })
    const config = { ...shareOf(whole), ...order.ports }
    const { workers, databasePoolSize } = config
    const { databaseUrl, adminToken, localWebhooks } = order
    const database = await openDatabase(databaseUrl, ENTITIES, {
      ...poolSizes(workers, databasePoolSize),
      ...config.pooler,
    })
    const tls = config.tls && openTls(config.tls, log)
    const channel = createPrimaryChannel({ order, workers, send, onMessage })
    const options = { config, database, adminToken, localWebhooks, log, tls, channel }
    const service = await startInstance(options)
    stop = closeOnce(service, database, log)
    channel.ready({
      startBackground: service.startBackground,
      onCommit: service.onCommit,
      deliveriesDue: service.deliveriesDue,
      collectMetrics: () => service.metrics.getMetricsAsJSON(),
      reload: () => tls?.reload(),
      announceStop: service.announceStop,
    })
  } catch (error) {
    process.send?.({ kind: 'failed', faults: startFaults(error) } satisfies ToPrimary, () =>
      process.exit(1),
    )
  }
}

function closeOnce(service: Service, database: Database, log: Logger): () => void {
  let closing = false
  const close = async (): Promise<void> => {
    setTimeout(() => process.exit(0), CLOSE_MS)
    const cut = await service.close()
    log.info({ ...cut }, 'servers closed')
    await database.close()
    await flushLog(log)
    process.exit(0)
  }
  return () => {
    if (closing) return
    closing = true
    close().catch(async (error: unknown) => {
      log.error({ err: error }, 'worker failed to stop cleanly')
      await flushLog(log)
      process.exit(1)
    })
  }
}

/** The primary process may have ended: then this one is about to end. */
function send(message: ToPrimary): void {
  process.send?.(message, () => undefined)
}

function onMessage(listener: (message: ToWorker) => void): void {
  process.on('message', listener)
}

await work(process.env)
