import type { Logger } from 'pino'
import { readConfig } from '../config/config.ts'
import { secretText } from '../config/settings.ts'
import { type Database, openDatabase, poolSizes } from '../postgres/orm.ts'
import { openTls } from '../server/tls.ts'
import { ENTITIES } from './entities.ts'
import { flushLog } from './log.ts'
import type { Ports } from './open-servers.ts'
import { CLOSE_MS, openLog, startFaults, startInstance } from './start-instance.ts'
import type { Service } from './start-service.ts'

/** The options of a worker. They are sent as a message, because arguments and secrets would show in the process list. */
export interface WorkerOrder {
  /** Begins with 1; a replacement has the number of the worker that it replaces. */
  readonly number: number
  readonly databaseUrl: string
  readonly adminToken: string | undefined
  /** Whether webhooks may go to this machine over http. */
  readonly localWebhooks: boolean
  /** The ports to listen on; no port is 0. */
  readonly ports: Ports
}

/** The messages of the supervisor: first the order, then commands. */
export type ToWorker = WorkerOrder | 'reload' | 'announce stop' | 'stop'

/** The messages of a worker: it serves, or it cannot start, with one line for each fault. */
export type FromWorker = 'ready' | { readonly faults: readonly string[] }

/** One of several instances that listen on the same ports of a machine: see `supervise-workers.ts`. */
async function work(env: NodeJS.ProcessEnv): Promise<void> {
  // A terminal or systemd may signal all processes. The first process decides what to do, so workers ignore signals.
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, () => undefined)
  // A disconnect means that the first process has ended.
  process.once('disconnect', () => process.exit(1))
  const received: ToWorker[] = []
  let receive = (message: ToWorker): void => {
    if (message === 'stop') process.exit(0)
    received.push(message)
  }
  const order = await new Promise<WorkerOrder>((resolve) => {
    process.on('message', (message: ToWorker) =>
      typeof message === 'object' ? resolve(message) : receive(message),
    )
  })
  try {
    const { number, databaseUrl, adminToken, localWebhooks, ports } = order
    const config = { ...readConfig(env), ...ports }
    const log = openLog(config, secretText(env, 'MASTER_KEY')).child({ worker: number })
    const database = await openDatabase(databaseUrl, ENTITIES, {
      ...poolSizes(config.workers, config.databasePoolSize),
      ...config.pooler,
    })
    const tls = config.tls && openTls(config.tls, log)
    const service = await startInstance({ config, database, adminToken, localWebhooks, log, tls })
    let isStopping = false
    receive = (message) => {
      if (message === 'reload') tls?.reload()
      else if (message === 'announce stop') service.announceStop()
      else if (!isStopping) {
        isStopping = true
        void stop(service, database, log)
      }
    }
    for (const message of received) receive(message)
    send('ready')
  } catch (error) {
    send({ faults: startFaults(error) }, () => process.exit(1))
  }
}

async function stop(service: Service, database: Database, log: Logger): Promise<void> {
  setTimeout(() => process.exit(0), CLOSE_MS)
  try {
    const cut = await service.close()
    log.info({ ...cut }, 'servers closed')
    await database.close()
  } catch (error) {
    log.error({ err: error }, 'worker failed to stop cleanly')
    process.exitCode = 1
  }
  await flushLog(log)
  process.exit()
}

/** Sends a message. If the first process has ended, the message is lost, and this process is about to exit. */
function send(message: FromWorker, sent: () => void = () => undefined): void {
  process.send?.(message, sent)
}

await work(process.env)
