import { flushCompileCache } from 'node:module'
import pino, { type Logger } from 'pino'
import { type Config, ConfigError } from '../config/config.ts'
import { systemClock } from '../core/clock.ts'
import type { KeyRing } from '../crypto/encryption.ts'
import { readKeyFiles } from '../crypto/key-files.ts'
import type { Database } from '../postgres/orm.ts'
import type { Tls } from '../server/tls.ts'
import { createLog } from './log.ts'
import type { Service } from './start-service.ts'

/** The process must end within 10 s of a signal; stopping the database gets the rest. */
export const CLOSE_MS = 8_500

/** Linux writes up to this much into a pipe atomically, so lines of several processes do not mix. */
const PIPE_BYTES = 4_096

/** The log, on standard error. */
export function openLog(config: Config, masterKeyText: string | undefined): Logger {
  const secrets = [config.adminToken, masterKeyText?.trim()].filter((text) => !!text)
  const shared = config.workers > 1 && { maxWrite: PIPE_BYTES }
  const stderr = pino.destination({ dest: 2, sync: false, ...shared })
  // Writing to a closed terminal fails. At exit sonic-boom would retry for ever, and the service would
  // never end.
  let closed = false
  stderr.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EIO') throw error
    closed = true
    stderr.destroy()
  })
  const write = (line: string) => void (closed || stderr.write(line))
  const flush = (done: () => void): void => {
    if (closed) {
      done()
      return
    }
    // It drains once more after all that waits. Its own `flush` does not wait for a write in progress.
    stderr.once('drain', done)
    stderr.write('')
  }
  return createLog(config.logLevel, secrets as string[], { write, flush })
}

/** What an instance is started with. */
interface InstanceOptions {
  readonly config: Config
  readonly database: Database
  readonly adminToken: string | undefined
  readonly localWebhooks: boolean
  readonly log: Logger
  readonly tls: Tls | undefined
}

/** Starts the service in this process. */
export async function startInstance(options: InstanceOptions): Promise<Service> {
  const { masterKey, dataDir } = options.config
  const keys = await readKeyRing(options.config)
  // The first process, which only starts workers, does not need it.
  const { startService } = await import('./start-service.ts')
  // Otherwise Node writes the compile cache at exit, and the first stop takes seconds longer.
  flushCompileCache()
  return startService({
    ...options,
    masterKey: keys.current,
    otherKeys: keys.others,
    ...(masterKey === undefined && { rereadKeys: () => readKeyFiles(dataDir) }),
    clock: systemClock,
  })
}

/** The master keys: the settings, else the files of the data folder. */
export async function readKeyRing(config: Config): Promise<KeyRing> {
  const { masterKey, masterKeyPrevious, dataDir } = config
  if (masterKey === undefined) return readKeyFiles(dataDir)
  return { current: masterKey, others: masterKeyPrevious }
}

/** One line for each fault, which names the setting that is its cause. */
export function startFaults(error: unknown): readonly string[] {
  if (error instanceof ConfigError) return error.faults
  return [textOf(error)]
}

export function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
