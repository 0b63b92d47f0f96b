import { flushCompileCache } from 'node:module'
import pino, { type Logger } from 'pino'
import { type Config, ConfigError } from '../config/config.ts'
import { systemClock } from '../core/clock.ts'
import type { KeyRing } from '../crypto/encryption.ts'
import { readKeyFiles } from '../crypto/key-files.ts'
import type { ServiceOptions } from './compose-domains.ts'
import { createLog } from './log.ts'
import type { Service } from './start-service.ts'

/** The time to stop the service. The process must end within 10 s of a signal; the rest is for stopping the database. */
export const CLOSE_MS = 8_500

/** Linux writes up to this much into a pipe atomically, so lines of several processes do not mix. */
const PIPE_BYTES = 4_096

/** The log, on standard error. */
export function openLog(config: Config, masterKeyText: string | undefined): Logger {
  const secrets = [config.adminToken, masterKeyText?.trim()].filter((text) => !!text)
  const shared = config.workers > 1 && { maxWrite: PIPE_BYTES }
  const stderr = pino.destination({ dest: 2, sync: false, ...shared })
  // Writing to a closed terminal fails. At exit, sonic-boom would retry without end, and the process would
  // never exit.
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
    // 'drain' is emitted again after all waiting lines are written. `flush` does not wait for a write in progress.
    stderr.once('drain', done)
    stderr.write('')
  }
  return createLog(config.logLevel, secrets as string[], { write, flush })
}

type InstanceOptions = Pick<
  ServiceOptions,
  'config' | 'database' | 'adminToken' | 'localWebhooks' | 'log' | 'tls'
>

/** Starts the service in this process. */
export async function startInstance(options: InstanceOptions): Promise<Service> {
  const { masterKey, dataDir } = options.config
  const keys = await readKeyRing(options.config)
  // Imported only here, because the first process, which only starts workers, does not need it.
  const { startService } = await import('./start-service.ts')
  // Write the compile cache now: Node would otherwise write it at exit, and the first stop would take seconds longer.
  flushCompileCache()
  return startService({
    ...options,
    masterKey: keys.current,
    otherKeys: keys.others,
    ...(masterKey === undefined && { rereadKeys: () => readKeyFiles(dataDir) }),
    clock: systemClock,
  })
}

/** Reads the master keys from the settings, or else from the files of the data folder. */
export async function readKeyRing(config: Config): Promise<KeyRing> {
  const { masterKey, masterKeyPrevious, dataDir } = config
  if (masterKey === undefined) return readKeyFiles(dataDir)
  return { current: masterKey, others: masterKeyPrevious }
}

/** Returns one line for each fault, with the setting that causes it. */
export function startFaults(error: unknown): readonly string[] {
  if (error instanceof ConfigError) return error.faults
  return [textOf(error)]
}

export function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
