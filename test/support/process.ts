import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { ADMIN_TOKEN, MASTER_KEY } from './service.ts'

/** The time limit of a start, which takes seconds even on a busy machine. */
const READY_MS = 300_000

/** The folder of this version. */
export const ROOT = join(import.meta.dirname, '../..')

/** The service in a separate process, which can be killed. */
export interface ServiceProcess {
  readonly httpUrl: string
  readonly grpcUrl: string
  /** `host:port` of the gRPC server. */
  readonly grpcAddress: string
  /** The URL of OPS_PORT; empty if it is not set. */
  readonly opsUrl: string
  readonly child: ChildProcess
  /** Its output so far, standard output and error. Only kept with `keepOutput`. */
  output(): string
  /** Kills the process, like a crash. */
  kill(): Promise<void>
  /** Stops it cleanly. @returns the exit code */
  stop(): Promise<number | null>
}

/**
 * Starts `node src/main.ts` and waits until it is ready. WORKERS in the environment of the tests is the
 * default number of workers.
 *
 * @param environment DATABASE_URL, or DATA_DIR for the embedded database, and any other setting
 * @param keepOutput whether its output is kept
 * @param root the folder of the version to start
 * @param args of the command line
 */
export async function startProcess(
  environment: NodeJS.ProcessEnv,
  keepOutput = false,
  root = ROOT,
  args: readonly string[] = [],
): Promise<ServiceProcess> {
  const child = spawn(process.execPath, [join(root, 'src/main.ts'), ...args], {
    env: {
      PATH: process.env['PATH'],
      HTTP_PORT: '0',
      GRPC_PORT: '0',
      LOG_LEVEL: 'error',
      WORKERS: process.env['WORKERS'],
      ADMIN_TOKEN,
      // Tests and their customers are not real, and most accounts of the tests are live.
      ALLOW_SIMULATED_LIVE_ACCOUNTS: 'on',
      MASTER_KEY: MASTER_KEY.toString('base64'),
      ...environment,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
    // Without the terminal of the test run, which would change the meaning of SIGHUP.
    detached: true,
  })
  // A failed test must not leave it running.
  const reap = () => child.kill('SIGKILL')
  process.once('exit', reap)
  const exited = once(child, 'exit').finally(() => process.off('exit', reap))
  // Its output may arrive after its end.
  const closed = once(child, 'close')
  let errors = ''
  let output = ''
  if (keepOutput) {
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (text) => {
        output += text
      })
    }
  }
  child.stderr.on('data', (text) => {
    // A test that logs what is loaded has many lines after the error.
    errors = (errors + text).slice(-200_000)
  })
  const [httpUrl, address, opsUrl = ''] = await new Promise<(string | undefined)[]>(
    (resolve, reject) => {
      setTimeout(() => reject(new Error(`the service is not ready: ${errors}`)), READY_MS).unref()
      createInterface({ input: child.stdout }).on('line', (line) => {
        const match =
          /^Inflow is ready: HTTP (\S+), gRPC (?:https:\/\/)?([^\s,]+)(?:, operations (\S+))?$/.exec(
            line,
          )
        if (match) resolve(match.slice(1))
      })
      closed.then(() => reject(new Error(`the service did not start: ${errors}`)), reject)
    },
  ).catch((error: unknown) => {
    reap()
    throw error
  })
  return {
    httpUrl: httpUrl!,
    grpcUrl: `${new URL(httpUrl!).protocol}//${address}`,
    grpcAddress: address!,
    opsUrl,
    child,
    output: () => output,
    async kill() {
      child.kill('SIGKILL')
      await exited
    },
    async stop() {
      child.kill('SIGTERM')
      await closed
      return child.exitCode
    },
  }
}
