import { credentials, Client as GrpcClient } from '@grpc/grpc-js'
import type { ServiceProcess } from './process.ts'

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

/** Health checks with a deadline: a server that hangs fails the test. */
const CHECK = '/grpc.health.v1.Health/Check'
const CHECK_MS = 10_000

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
    await check(client)
    const attacking = attack().finally(() => {
      over = true
    })
    attacking.catch(() => undefined)
    while (!over) {
      await check(client)
      answered += 1
      await note()
      await Promise.race([attacking, new Promise((resolve) => setTimeout(resolve, EVERY_MS))])
    }
    await attacking
    await check(client)
    await note()
  } finally {
    client.close()
  }
  return { residentMiB, lagMs, answered }
}

function check(client: GrpcClient): Promise<void> {
  return new Promise((resolve, reject) => {
    const same = (bytes: Buffer) => bytes
    const deadline = Date.now() + CHECK_MS
    client.makeUnaryRequest(CHECK, same, same, Buffer.alloc(0), { deadline }, (error) =>
      error ? reject(error) : resolve(),
    )
  })
}

async function measure({
  httpUrl,
}: ServiceProcess): Promise<{ residentMiB: number; lagMs: number }> {
  const text = await (await fetch(`${httpUrl}/metrics`)).text()
  const read = (name: string): number => {
    const found = new RegExp(`^${name} (\\S+)$`, 'm').exec(text)
    if (found === null) throw new Error(`no metric ${name}`)
    return Number(found[1])
  }
  return {
    residentMiB: read('process_resident_memory_bytes') / MIB,
    lagMs: read('nodejs_eventloop_lag_max_seconds') * 1_000,
  }
}
