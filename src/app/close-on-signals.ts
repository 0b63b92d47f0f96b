import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from 'pino'
import { untilAborted, withTimeout } from '../core/concurrency.ts'
import { flushLog } from './log.ts'
import { CLOSE_MS } from './start-instance.ts'

/** A service, or its worker processes, which run until a signal. */
export interface Stoppable {
  /** Reports that the service is about to stop; it continues to serve. */
  announceStop(): void
  /** Finishes the work in progress, and stops. */
  close(): Promise<unknown>
  /** Reads the certificates again. */
  readonly reload: () => void
  /** Resolves with the faults if the service cannot continue; systemd or an orchestrator may restart it. */
  readonly failed: Promise<readonly string[]>
}

interface Options {
  readonly service: Stoppable
  /** Closes the connections to the database, and stops an embedded database. */
  readonly closeDatabase: () => Promise<void>
  /** Whether SIGHUP reloads the certificates, rather than stopping the service. */
  readonly reloads: boolean
  /** How long the service continues to serve after a signal, so that load balancers notice that it stops. */
  readonly delayMs: number
  readonly log: Logger
  /** Prints faults. */
  readonly report: (faults: readonly string[]) => void
}

/**
 * Signals within this time count as one: Ctrl-C reaches the process from the terminal and from npm.
 */
const SAME_SIGNAL_MS = 1_000

/**
 * Stops the service on SIGTERM, SIGINT and SIGHUP, and if it fails. It first reports for `delayMs` that it is not ready. A
 * second signal ends that wait, or cuts the work in progress. The process ends within ten seconds after the wait.
 */
export function closeOnSignals(options: Options): void {
  const { service, reloads, delayMs, log, report } = options
  let stop: Stop | undefined
  const onSignal = (signal: NodeJS.Signals): void => {
    if (stop === undefined) {
      stop = beginStop(options, signal, delayMs, 0)
    } else if (performance.now() - stop.signalledAtMs > SAME_SIGNAL_MS) {
      log.warn({ signal, step: stop.step() }, 'another signal: stopping without further waits')
      stop.signalledAtMs = performance.now()
      stop.hurry()
    }
  }
  process.on('SIGTERM', onSignal)
  process.on('SIGINT', onSignal)
  process.on('SIGHUP', (signal) => (reloads ? service.reload() : onSignal(signal)))
  void service.failed.then((faults) => {
    report(faults)
    stop ??= beginStop(options, 'failure', 0, 1)
  })
}

/** A stop in progress. */
interface Stop {
  signalledAtMs: number
  readonly step: () => 'delay' | 'drain'
  /** Ends the current step. */
  readonly hurry: () => void
}

function beginStop(options: Options, reason: string, delayMs: number, code: number): Stop {
  const { log } = options
  const startedAtMs = performance.now()
  let step = new AbortController()
  let name: 'delay' | 'drain' = 'delay'
  const close = async (): Promise<never> => {
    log.info({ reason, delay_ms: delayMs }, 'stopping')
    options.service.announceStop()
    if (delayMs > 0) await untilAborted(sleep(delayMs), step.signal)
    step = new AbortController()
    name = 'drain'
    const exitCode = await drain(options, step.signal).then(
      () => code,
      (error: Error) => {
        log.error({ err: error }, 'the service failed to stop cleanly')
        options.report([error.message])
        return 1
      },
    )
    const took = Math.round(performance.now() - startedAtMs)
    log.info({ reason, took_ms: took, exit_code: exitCode }, 'stopped')
    await flushLog(log)
    process.exit(exitCode)
  }
  void close()
  return { signalledAtMs: startedAtMs, step: () => name, hurry: () => step.abort() }
}

async function drain(options: Options, hurried: AbortSignal): Promise<void> {
  const { service, closeDatabase, log } = options
  const closing = untilAborted(service.close(), hurried)
  const inTime = await withTimeout(closing, CLOSE_MS)
  if (!inTime || hurried.aborted) {
    log.warn({ limit_ms: CLOSE_MS }, 'what was still in progress is cut')
  }
  // If the service did not finish in time, the end of the process cuts its connections.
  await closeDatabase()
}
