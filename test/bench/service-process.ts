import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { type Bench, MASTER_KEY } from './bench.ts'

/** The service, running as it does in production. */
export interface ServiceProcess {
  readonly pid: number
  /** `http://127.0.0.1:…` */
  readonly httpUrl: string
  /** `127.0.0.1:…` */
  readonly grpcAddress: string
  readonly adminToken: string
}

const ROOT = join(import.meta.dirname, '..', '..')
const READY_LIMIT_MS = 60_000
const STOP_LIMIT_MS = 12_000
const TAIL_CHARACTERS = 4_000

/** More requests than any machine serves. */
const HIGH = '1000000'

/**
 * Starts `node src/main.ts` on a database until the row ends. When `BENCH_PROFILE` names a folder, a `.cpuprofile` of
 * the service is written there.
 *
 * @param environment further settings
 */
export function startServiceProcess(
  bench: Bench,
  databaseUrl: string,
  environment: NodeJS.ProcessEnv = {},
): Promise<ServiceProcess> {
  return start(bench, join(ROOT, 'src', 'main.ts'), databaseUrl, environment)
}

/** The same, with webhooks that may go to receivers of this machine. */
export async function startLocalService(bench: Bench): Promise<ServiceProcess> {
  const program = join(import.meta.dirname, 'local-service.ts')
  return start(bench, program, await bench.createDatabase(), {})
}

async function start(
  bench: Bench,
  program: string,
  databaseUrl: string,
  environment: NodeJS.ProcessEnv,
): Promise<ServiceProcess> {
  const adminToken = `bench-${randomBytes(16).toString('hex')}`
  const profile = process.env['BENCH_PROFILE']
  const args = profile === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profile}`]
  const child = spawn(process.execPath, [...args, program], {
    cwd: bench.folder,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      ...process.env,
      DATABASE_URL: databaseUrl,
      DATA_DIR: bench.folder,
      HTTP_PORT: '0',
      GRPC_PORT: '0',
      MASTER_KEY: MASTER_KEY.toString('base64'),
      ADMIN_TOKEN: adminToken,
      ALLOW_SIMULATED_LIVE_ACCOUNTS: 'on',
      // Limits still count, but refuse no call.
      RATE_LIMIT_KEY: HIGH,
      ...environment,
    },
  })
  // If the benchmark process dies, the service ends too.
  const kill = () => void child.kill('SIGKILL')
  process.once('exit', kill)
  bench.onEnd(async () => {
    await end(child)
    process.off('exit', kill)
  })
  const { httpUrl, grpcAddress } = await addresses(child)
  return { pid: child.pid as number, httpUrl, grpcAddress, adminToken }
}

/** Waits for the line that reports that the service is ready. */
function addresses(child: ChildProcess): Promise<{ httpUrl: string; grpcAddress: string }> {
  let said = ''
  return new Promise((resolve, reject) => {
    const fail = (what: string) => reject(new Error(`the service ${what}: ${said}`))
    const timer = setTimeout(() => fail('was not ready in time'), READY_LIMIT_MS)
    child.once('exit', () => fail('ended'))
    const outputs = [child.stdout, child.stderr]
    const hear = (chunk: Buffer) => {
      said = (said + chunk).slice(-TAIL_CHARACTERS)
      const ready = /^Inflow is ready: HTTP (\S+), gRPC (\S+)$/m.exec(said)
      if (ready === null) return
      clearTimeout(timer)
      // Searching the lines of the log would take time from what is measured.
      for (const output of outputs) output?.off('data', hear).resume()
      resolve({ httpUrl: ready[1] as string, grpcAddress: ready[2] as string })
    }
    for (const output of outputs) output?.on('data', hear)
  })
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const gone = new Promise((resolve) => child.once('exit', resolve))
  child.kill('SIGTERM')
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_LIMIT_MS)
  await gone
  clearTimeout(timer)
}
