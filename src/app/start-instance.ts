import { flushCompileCache } from 'node:module'
import pino, { type Logger } from 'pino'
import { type Config, ConfigError } from '../config/config.ts'
import { systemClock } from '../core/clock.ts'
import { readKeyFiles } from '../crypto/key-files.ts'
import type { Database } from '../postgres/orm.ts'
import type { Tls } from '../server/tls.ts'
import { createLog } from './log.ts'
import type { Service } from './start-service.ts'
import type { WorkerChannel } from './workers/worker-channel.ts'

/** Everything must be over within 10 s of a signal; the database gets what is left of it. */
export const CLOSE_MS = 8_500

/** What Linux writes into a pipe at once, so that lines of several processes do not mix. */
const PIPE_BYTES = 4_096

/** The log, on standard error. */
export function openLog(config: Config, masterKeyText: string | undefined): Logger {
  const secrets = [config.adminToken, masterKeyText?.trim()].filter((text) => !!text)
  const shared = config.workers > 1 && { maxWrite: PIPE_BYTES }
  const stderr = pino.destination({ dest: 2, sync: false, ...shared })
  // A terminal that was closed takes nothing. sonic-boom would try for ever to write what is left at
  // the exit, and the service would never end.
  let closed = false
  stderr.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EIO') throw error
    closed = true
    stderr.destroy()
  })
  const write = (line: string) => void (closed || stderr.write(line))
  return createLog(config.logLevel, secrets as string[], { write })
}

/** What a process needs beside the settings to serve. */
interface InstanceOptions {
  readonly config: Config
  readonly database: Database
  readonly adminToken: string | undefined
  readonly localWebhooks: boolean
  readonly log: Logger
  readonly tls: Tls | undefined
  readonly link?: WorkerChannel
}

/** Serves in this process. */
export async function startInstance(options: InstanceOptions): Promise<Service> {
  const { masterKey, masterKeyPrevious, dataDir } = options.config
  const keys =
    masterKey === undefined
      ? await readKeyFiles(dataDir)
      : { current: masterKey, others: masterKeyPrevious }
  // A process that only starts others has no use for it.
  const { startService } = await import('./start-service.ts')
  // Node would write what it compiled at the exit, and the first stop would take seconds longer.
  flushCompileCache()
  return startService({
    ...options,
    masterKey: keys.current,
    otherKeys: keys.others,
    ...(masterKey === undefined && { rereadKeys: () => readKeyFiles(dataDir) }),
    clock: systemClock,
  })
}

/** One line for each fault; where a setting is the cause, it names the setting. */
export function startFaults(error: unknown): readonly string[] {
  if (error instanceof ConfigError) return error.faults
  return [textOf(error)]
}

export function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
