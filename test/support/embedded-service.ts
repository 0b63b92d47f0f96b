import { type ChildProcess, execFileSync, type SpawnOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect } from 'vitest'
import { withTimeout } from '../../src/core/concurrency.ts'
import { makeFolder } from './folder.ts'
import { postRest } from './service.ts'
import { waitFor } from './wait-for.ts'

/** How long a service and its database may take to stop, also on a slow machine. */
const STOP_LIMIT_MS = 120_000

export const ROOT = join(import.meta.dirname, '../..')

export const ENV = { PATH: process.env['PATH'], HTTP_PORT: '0', GRPC_PORT: '0', LOG_LEVEL: 'error' }

/** Provides each test of a file with an empty folder, and with the service started in it with its own database. */
export function useEmbeddedService() {
  const children = new Set<ReturnType<typeof spawn>>()
  let folder: string
  beforeEach(async () => {
    folder = await makeFolder('start')
  })
  afterEach(async () => {
    // SIGTERM first: a service that is killed leaves its database server behind.
    await Promise.all([...children].map(end))
    await rm(folder, { recursive: true, force: true })
  })
  const at = (path: string) => join(folder, path)

  /** Runs a program, which is stopped at the end of the test. */
  function run(program: string, args: readonly string[], options: SpawnOptions) {
    const child = spawn(program, args, options)
    children.add(child)
    const exited = once(child, 'exit').then(([code, signal]) => {
      children.delete(child)
      return code ?? signal
    })
    return { child, exited }
  }

  /** Runs a program that starts the service, and waits until it is ready. */
  async function start(
    program = process.execPath,
    args: readonly string[] = [join(ROOT, 'src/main.ts')],
    env: NodeJS.ProcessEnv = {},
  ) {
    const { child, exited } = run(program, args, {
      cwd: program === process.execPath ? folder : ROOT,
      env: { ...ENV, DATA_DIR: at('.inflow'), ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      // Without the terminal of the test run.
      detached: true,
    })
    let said = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream!.on('data', (text) => {
        said += text
      })
    }
    await waitFor(() => expect(said).toMatch(/^Inflow is ready[\s\S]*-d '\{.*\}'$/m))
    return { child, exited, said: () => said }
  }

  return {
    at,
    run,
    start,
    credentials: async () => JSON.parse(await readFile(at('.inflow/credentials.json'), 'utf8')),
    /** The process id of the database server, or of `initdb`'s, which writes it negated. */
    async postmaster(): Promise<number> {
      const text = await readFile(at('.inflow/postgres/postmaster.pid'), 'utf8')
      const [, pid] = /^-?([0-9]+)\n/.exec(text) ?? []
      // The file is created empty, then written.
      if (!pid) throw new Error('postmaster.pid is not written yet')
      return Number(pid)
    },
  }
}

async function end(child: ChildProcess): Promise<void> {
  const exited = once(child, 'exit')
  child.kill('SIGTERM')
  if (await withTimeout(exited, STOP_LIMIT_MS)) return
  child.kill('SIGKILL')
  await exited
}

/** The service that started the database server. */
export function ownerOf(server: number): number {
  return Number(execFileSync('ps', ['-o', 'ppid=', '-p', `${server}`], { encoding: 'utf8' }))
}

export function has(program: string): boolean {
  try {
    execFileSync(program, ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** Creates the same account each time, with the credentials of `credentials.json`. */
export async function createAccount(
  { http_url: url, secret_key: key }: Record<string, string>,
  phone = '08012345678',
) {
  const answer = await postRest(url!, key, 'generateVirtualAccount/', {
    reference: 'order-7',
    email: 'ada@example.com',
    phone,
    firstName: 'Ada',
    lastName: 'Obi',
    bank: 'PROVIDUS',
  })
  expect(answer.status).toBe(200)
  return { replayed: answer.headers.get('idempotent-replayed'), body: answer.body }
}
