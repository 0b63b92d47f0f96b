import { credentials, Client as GrpcClient } from '@grpc/grpc-js'
import { checkHealth } from './grpc-health.ts'
import type { ServiceProcess } from './process.ts'
import { scrape } from './scrape.ts'

/** The effect of an attack on a service, from its metrics and a second client. */
export interface Pressure {
  /** The highest resident memory. */
  readonly residentMiB: number
  /** The longest delay of its event loop. */
  readonly lagMs: number
  /** Successful calls of a well-behaved client on its own connection during the attack. */
  readonly answered: number
}

const MIB = 1024 * 1024
const EVERY_MS = 100

/** Health checks have a deadline: a server that hangs fails the test. */
const CHECK_MS = 120_000

/** Runs an attack, and meanwhile measures the service and a second client. */
export async function underPressure(
  service: ServiceProcess,
  attack: () => Promise<unknown>,
): Promise<Pressure> {
  const client = new GrpcClient(service.grpcAddress, credentials.createInsecure())
  // The metric covers the time since the last scrape.
  let { residentMiB } = await measure(service)
  let lagMs = 0
  let answered = 0
  let over = false
  const note = async (): Promise<void> => {
    const now = await measure(service)
    residentMiB = Math.max(residentMiB, now.residentMiB)
    lagMs = Math.max(lagMs, now.lagMs)
  }
  try {
    await checkHealth(client, CHECK_MS)
    const attacking = attack().finally(() => {
      over = true
    })
    attacking.catch(() => undefined)
    while (!over) {
      await checkHealth(client, CHECK_MS)
      answered += 1
      await note()
      await Promise.race([attacking, new Promise((resolve) => setTimeout(resolve, EVERY_MS))])
    }
    await attacking
    await checkHealth(client, CHECK_MS)
    await note()
  } finally {
    client.close()
  }
  return { residentMiB, lagMs, answered }
}

async function measure({
  httpUrl,
}: ServiceProcess): Promise<{ residentMiB: number; lagMs: number }> {
  const metrics = await scrape(httpUrl)
  const read = (name: string): number => {
    const value = metrics.value(name)
    if (value === undefined) throw new Error(`no metric ${name}`)
    return value
  }
  return {
    residentMiB: read('process_resident_memory_bytes') / MIB,
    lagMs: read('nodejs_eventloop_lag_max_seconds') * 1_000,
  }
}
