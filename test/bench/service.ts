import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type { DescService } from '@bufbuild/protobuf'
import type { Client } from '@connectrpc/connect'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { grpcClient, grpcTransport } from '../support/grpc-client.ts'
import { openAccountOver } from '../support/opened-account.ts'
import { scrape } from '../support/scrape.ts'
import { type Bench, MASTER_KEY } from './bench.ts'
import { seedAccounts } from './seed.ts'

/** The service, running as it does in production. */
export interface Service {
  readonly pid: number
  /** `http://127.0.0.1:…` */
  readonly httpUrl: string
  /** `127.0.0.1:…` */
  readonly address: string
  /** The administrator's. */
  readonly token: string
}

export const ROOT = join(import.meta.dirname, '..', '..')
const READY_LIMIT_MS = 60_000
const STOP_LIMIT_MS = 15_000
const TAIL_CHARACTERS = 4_000

/** More requests than any machine serves: limits still count, but refuse no call. */
const HIGH = '1000000'

/**
 * Starts `node src/main.ts` on a database until the row ends. When `BENCH_PROFILE` names a folder, a `.cpuprofile` of
 * the service is written there.
 *
 * @param environment further settings
 */
export async function startService(
  bench: Bench,
  databaseUrl: string,
  environment: NodeJS.ProcessEnv = {},
  program = join(ROOT, 'src', 'main.ts'),
): Promise<Service> {
  const token = `bench-${randomBytes(16).toString('hex')}`
  const profile = process.env['BENCH_PROFILE']
  const args = profile === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profile}`]
  const child = startGroup(process.execPath, [...args, program], bench.folder, {
    ...process.env,
    DATABASE_URL: databaseUrl,
    DATA_DIR: bench.folder,
    HTTP_PORT: '0',
    GRPC_PORT: '0',
    MASTER_KEY: MASTER_KEY.toString('base64'),
    ADMIN_TOKEN: token,
    ALLOW_SIMULATED_LIVE_ACCOUNTS: 'on',
    RATE_LIMIT_KEY: HIGH,
    ...environment,
  })
  bench.onEnd(child.stop)
  return { pid: child.pid, token, ...(await child.ready) }
}

/** The same, on a database with accounts. */
export async function startSeeded(bench: Bench) {
  const databaseUrl = await bench.createDatabase()
  await seedAccounts(databaseUrl)
  return { ...(await startService(bench, databaseUrl)), databaseUrl }
}

/** Starts the service with webhooks that may go to receivers of this machine. */
export async function startLocalService(bench: Bench, databaseUrl?: string): Promise<Service> {
  const program = join(import.meta.dirname, 'local-service.ts')
  return startService(bench, databaseUrl ?? (await bench.createDatabase()), {}, program)
}

/** Starts the service in a process group of its own, as npm and its shell do not forward every signal. */
export function startGroup(
  command: string,
  args: readonly string[],
  cwd: string,
  env: NodeJS.ProcessEnv,
) {
  const child = spawn(command, args, {
    cwd,
    env,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const gone = new Promise<void>((resolve) => child.once('close', () => resolve()))
  const signal = (name: NodeJS.Signals) => {
    try {
      process.kill(-(child.pid as number), name)
    } catch {
      // All processes of the group have ended.
    }
  }
  // If the benchmark ends, so does the service.
  const kill = () => signal('SIGKILL')
  process.once('exit', kill)
  return {
    pid: child.pid as number,
    ready: readAddresses(child),
    async stop(): Promise<void> {
      signal('SIGTERM')
      const timer = setTimeout(kill, STOP_LIMIT_MS)
      await gone
      clearTimeout(timer)
      process.off('exit', kill)
    },
  }
}

/** Waits for the line that reports that the service is ready. */
function readAddresses(child: ChildProcess): Promise<Pick<Service, 'httpUrl' | 'address'>> {
  let said = ''
  return new Promise((resolve, reject) => {
    const fail = (what: string) => reject(new Error(`the service ${what}: ${said}`))
    const timer = setTimeout(() => fail('was not ready in time'), READY_LIMIT_MS)
    child.once('error', reject)
    child.once('exit', () => fail('ended'))
    const outputs = [child.stdout, child.stderr]
    const hear = (chunk: Buffer) => {
      said = (said + chunk).slice(-TAIL_CHARACTERS)
      const [, httpUrl, address] =
        /^Inflow is ready: HTTP (\S+), gRPC (\S+?)(?:;.*)?$/m.exec(said) ?? []
      if (httpUrl === undefined || address === undefined) return
      clearTimeout(timer)
      // Searching the lines of the log would take time from what is measured.
      for (const output of outputs) output?.off('data', hear).resume()
      resolve({ httpUrl, address })
    }
    for (const output of outputs) output?.on('data', hear)
  })
}

/** The administrator's client. */
export function adminClient<S extends DescService>(service: Service, desc: S): Client<S> {
  return grpcClient(desc, `http://${service.address}`, service.token)
}

/** Creates a business with a key, accounts at 9PSB, and webhook endpoints. */
export async function openBusiness(
  service: Service,
  { accounts = 0, urls = [] as readonly string[], endpoint = {} },
) {
  const created = await adminClient(service, BusinessService).createBusiness({ name: 'Bench' })
  const businessId = created.business?.id ?? ''
  const transport = grpcTransport(`http://${service.address}`, service.token)
  const accountNumbers: string[] = []
  for (let number = 1; number <= accounts; number++) {
    const given = { businessId, reference: `order-${number}`, bank: Bank.BANK_9PSB }
    accountNumbers.push((await openAccountOver(transport, given)).accountNumber)
  }
  const webhookClient = adminClient(service, WebhookService)
  const endpointIds: string[] = []
  for (const url of urls) {
    const made = await webhookClient.createEndpoint({ businessId, url, ...endpoint })
    endpointIds.push(made.endpoint?.id ?? '')
  }
  return { businessId, secretKey: created.secretKey, accountNumbers, endpointIds }
}

/** Reads `/metrics`. @returns the sum of a metric over all labels, by name */
export async function readMetrics({ httpUrl }: Service): Promise<(name: string) => number> {
  const { labels, sum } = await scrape(httpUrl)
  return (name) => {
    if (!labels.has(name)) throw new Error(`/metrics has no ${name}`)
    return sum(name)
  }
}

/** The memory of the process in MiB: resident, V8's used and total heap, and buffers. */
export function memoryOf(metric: (name: string) => number) {
  const mib = (name: string) => metric(name) / 2 ** 20
  return {
    residentMib: mib('process_resident_memory_bytes'),
    heapMib: mib('nodejs_heap_size_used_bytes'),
    heapTotalMib: mib('nodejs_heap_size_total_bytes'),
    externalMib: mib('nodejs_external_memory_bytes'),
  }
}
