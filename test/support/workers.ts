import { existsSync, readFileSync } from 'node:fs'
import type { ServiceProcess } from './process.ts'
import { waitUntil } from './wait-for.ts'

/** A line of the service's log. */
export interface LogLine {
  readonly msg: string
  readonly worker?: number
  readonly workerPid?: number
  readonly ops_port?: number
  readonly rpc?: string
  /** The text of a risk. */
  readonly found?: string
}

/** The log of a service that was started with `keepOutput`. */
export function logOf(service: ServiceProcess): LogLine[] {
  // The last line may be incomplete.
  const lines = service.output().split('\n').slice(0, -1)
  return lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line))
}

/** The process ids of the workers that have been ready, by number; the latest of each. */
export function workersOf(service: ServiceProcess): Map<number, number> {
  const ready = logOf(service).filter(({ msg }) => msg === 'worker ready')
  return new Map(ready.map(({ worker, workerPid }) => [worker!, workerPid!]))
}

/** The operations ports of the workers. */
export function opsPortsOf(service: ServiceProcess): number[] {
  const ready = logOf(service).filter(({ msg }) => msg === 'worker ready')
  return [...new Set(ready.map(({ ops_port }) => ops_port!))]
}

/** Kills a worker, and waits for its replacement. */
export async function killWorker(service: ServiceProcess, number: number): Promise<void> {
  const pid = workersOf(service).get(number)!
  process.kill(pid, 'SIGKILL')
  await waitUntil(() => workersOf(service).get(number) !== pid)
}

/** The workers that served calls of a method, or of all methods. The service must log at level debug. */
export function answeredBy(service: ServiceProcess, rpc: string): Set<number> {
  const calls = logOf(service).filter(
    ({ msg, rpc: at }) => /^call( slow)?$/.test(msg) && at?.endsWith(rpc),
  )
  return new Set(calls.map(({ worker }) => worker!))
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
  } catch {
    return false
  }
  // A zombie still has its id.
  const path = `/proc/${pid}/stat`
  return !(existsSync(path) && / Z /.test(readFileSync(path, 'utf8')))
}
