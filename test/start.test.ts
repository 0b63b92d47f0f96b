import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Client } from 'pg'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { findRunningEmbedded } from '../src/store/embedded.ts'
import { makeFolder } from './support/folder.ts'
import { makeCertificate } from './webhooks/certificate.ts'

const ROOT = join(import.meta.dirname, '..')

/** The sandbox answers for this telephone number after two seconds. */
const TAKES_2_S = '08000000003'

let folder: string
const children = new Set<ReturnType<typeof spawn>>()

beforeEach(async () => {
  folder = await makeFolder('start')
})

afterEach(async () => {
  for (const child of children) child.kill('SIGKILL')
  await rm(folder, { recursive: true, force: true })
})

const ENV = { PATH: process.env['PATH'], HTTP_PORT: '0', GRPC_PORT: '0', LOG_LEVEL: 'error' }

/** Runs a program that starts the service, on a database of its own, until that is ready. */
async function start(
  program = process.execPath,
  args: readonly string[] = [join(ROOT, 'src/main.ts')],
  env: NodeJS.ProcessEnv = {},
) {
  const child = spawn(program, args, {
    cwd: program === process.execPath ? folder : ROOT,
    env: { ...ENV, DATA_DIR: join(folder, '.inflow'), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    // Without the terminal that the tests may be run in.
    detached: true,
  })
  children.add(child)
  let said = ''
  child.stdout.on('data', (text) => {
    said += text
  })
  child.stderr.on('data', (text) => {
    said += text
  })
  const exited = once(child, 'exit').then(([code, signal]) => {
    children.delete(child)
    return code ?? signal
  })
  await vi.waitFor(() => expect(said).toMatch(/^Inflow is ready[\s\S]*-d '\{.*\}'$/m), {
    timeout: 40_000,
  })
  return { child, exited, said: () => said }
}

const credentials = async () =>
  JSON.parse(await readFile(join(folder, '.inflow/credentials.json'), 'utf8'))

/** The process id of the database server, or of `initdb`'s, which writes it negated. */
async function postmaster(): Promise<number> {
  const text = await readFile(join(folder, '.inflow/postgres/postmaster.pid'), 'utf8')
  const [, pid] = /^-?([0-9]+)\n/.exec(text) ?? []
  // Its writer makes the file first, and fills it then.
  if (!pid) throw new Error('postmaster.pid is not written yet')
  return Number(pid)
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
  } catch {
    return false
  }
  // One that has ended, and that nobody has asked after yet, still has its id.
  const path = `/proc/${pid}/stat`
  return !(existsSync(path) && / Z /.test(readFileSync(path, 'utf8')))
}

/** The service that started the database server. */
function ownerOf(server: number): number {
  return Number(execFileSync('ps', ['-o', 'ppid=', '-p', `${server}`], { encoding: 'utf8' }))
}

async function countAccounts(): Promise<number> {
  const url = await findRunningEmbedded(join(folder, '.inflow/postgres'))
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    return (await client.query('select from account')).rowCount ?? 0
  } finally {
    await client.end()
  }
}

function has(program: string): boolean {
  try {
    execFileSync(program, ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

async function createAccount(
  { http_url: url, secret_key: key }: Record<string, string>,
  phone = '08012345678',
) {
  const response = await fetch(`${url}/v2/thirdparty/generateVirtualAccount/`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      reference: 'order-7',
      email: 'ada@example.com',
      phone,
      firstName: 'Ada',
      lastName: 'Obi',
      bank: 'PROVIDUS',
    }),
  })
  expect(response.status).toBe(200)
  return { replayed: response.headers.get('idempotent-replayed'), body: await response.json() }
}

test('a first start makes a database, a demo business and credentials of its own', async () => {
  const { child, exited } = await start()
  const first = await credentials()
  expect(Object.keys(first)).toEqual([
    'business_id',
    'secret_key',
    'admin_token',
    'http_url',
    'grpc_url',
  ])
  for (const name of ['credentials.json', 'master.key']) {
    expect((await stat(join(folder, '.inflow', name))).mode & 0o777).toBe(0o600)
  }
  const { body } = await createAccount(first)
  const server = await postmaster()
  child.kill('SIGTERM')
  expect(await exited).toBe(0)
  expect(isAlive(server)).toBe(false)

  // The next start is at other ports, and keeps everything else.
  const next = await start()
  const second = await credentials()
  expect(second).toEqual({ ...first, http_url: second.http_url, grpc_url: second.grpc_url })
  expect(second.http_url).not.toBe(first.http_url)
  expect(await createAccount(second)).toEqual({ replayed: 'true', body })
  next.child.kill('SIGINT')
  expect(await next.exited).toBe(0)
}, 60_000)

test('after a kill -9, the next start finds the orphaned database and all that was acknowledged', async () => {
  const { child, exited } = await start()
  const { body } = await createAccount(await credentials())
  const orphan = await postmaster()
  child.kill('SIGKILL')
  expect(await exited).toBe('SIGKILL')
  expect(isAlive(orphan)).toBe(true)
  const next = await start()
  expect(await createAccount(await credentials())).toEqual({ replayed: 'true', body })
  expect(isAlive(orphan)).toBe(false)
  next.child.kill('SIGTERM')
  expect(await next.exited).toBe(0)
}, 60_000)

test.each([
  ['a start', 'src/main.ts', []],
  ['a command', 'src/cli/inflow.ts', ['migrate', 'up']],
])(
  'a signal in the middle of %s takes the database along',
  async (_what, program, args) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
      const child = spawn(process.execPath, [join(ROOT, program), ...args], {
        cwd: folder,
        env: ENV,
        stdio: 'ignore',
      })
      children.add(child)
      const exited = once(child, 'exit')
      const server = await vi.waitFor(postmaster, { timeout: 20_000, interval: 5 })
      child.kill(signal)
      await exited
      await vi.waitFor(() => expect(isAlive(server)).toBe(false), 20_000)
      await rm(join(folder, '.inflow'), { recursive: true })
    }
  },
  60_000,
)

test.skipIf(!has('curl'))(
  'the curl line that it prints works when pasted',
  async () => {
    const { child, exited, said } = await start()
    const [line] = /^curl [\s\S]*-d '\{.*\}'$/m.exec(said()) ?? []
    const answer = JSON.parse(execFileSync('sh', ['-c', line!], { encoding: 'utf8' }))
    expect(answer).toMatchObject({ status: true, message: 'Account reserved' })
    child.kill('SIGTERM')
    expect(await exited).toBe(0)
  },
  60_000,
)

test('SIGTERM to npm alone ends the service and its database', async () => {
  const { child } = await start('npm', ['start'])
  const server = await postmaster()
  const service = ownerOf(server)
  expect(service).not.toBe(child.pid)
  expect([service, server].filter(isAlive)).toEqual([service, server])
  process.kill(child.pid!, 'SIGTERM')
  await vi.waitFor(() => expect([service, server].filter(isAlive)).toEqual([]), 20_000)
  expect(existsSync(join(folder, '.inflow/postgres/postmaster.pid'))).toBe(false)
}, 60_000)

test.skipIf(!has('script'))(
  'closing the terminal ends the service and its database, also with TLS, and answers what it was asked',
  async () => {
    const { cert, key } = makeCertificate()
    const tls = { TLS_CERT: join(folder, 'cert.pem'), TLS_KEY: join(folder, 'key.pem') }
    await writeFile(tls.TLS_CERT, cert)
    await writeFile(tls.TLS_KEY, key)
    for (const env of [{}, tls]) {
      // Gives the command a terminal of its own; when it is killed, that is closed.
      const settings = { LOG_LEVEL: 'info', ...env }
      const { child } = await start('script', ['-qfec', 'npm start', '/dev/null'], settings)
      const server = await postmaster()
      const service = ownerOf(server)
      const asked = env === tls ? undefined : createAccount(await credentials(), TAKES_2_S)
      if (asked) await vi.waitFor(async () => expect(await countAccounts()).toBe(1), 20_000)
      process.kill(child.pid!, 'SIGKILL')
      await asked
      await vi.waitFor(() => expect([service, server].filter(isAlive)).toEqual([]), 20_000)
      expect(existsSync(join(folder, '.inflow/postgres/postmaster.pid'))).toBe(false)
    }
  },
  90_000,
)

const OLD_NODE = oldNode()

test.skipIf(OLD_NODE === undefined)('an old Node says which version is needed', () => {
  const { status, stdout, stderr } = spawnSync(OLD_NODE!, [join(ROOT, 'src/main.ts')], {
    encoding: 'utf8',
    env: ENV,
    cwd: folder,
  })
  const { engines } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
  expect([status, stdout]).toEqual([1, ''])
  expect(stderr).toMatch(/^inflow: Node [0-9.]+ or newer is needed, and this is [^\n]+\n$/)
  expect(`>=${/Node ([0-9.]+)/.exec(stderr)?.[1]}`).toBe(engines.node)
})

/** A Node of this machine that cannot read TypeScript. */
function oldNode(): string | undefined {
  const places = (process.env['PATH'] ?? '').split(':').map((place) => join(place, 'node'))
  return places.find((node) => {
    const { stdout } = spawnSync(node, ['-p', 'process.features.typescript ?? "none"'])
    return existsSync(node) && String(stdout).trim() === 'none'
  })
}

test('engines is what the dependencies need', () => {
  const read = (path: string) => JSON.parse(readFileSync(join(ROOT, path), 'utf8'))
  const { dependencies, engines } = read('package.json')
  const needed = Object.keys(dependencies)
    .map((name): string => read(`node_modules/${name}/package.json`).engines?.node ?? '>=0')
    .map((range) => /(?:^|\|\|)\s*>=\s*([0-9.x]+)\s*$/.exec(range)?.[1])
    .map((version) => (version ?? '0').split('.').slice(0, 2).map(Number))
    .map(([major = 0, minor = 0]) => [major, minor || 0] as const)
    .sort(([major, minor], [other, otherMinor]) => other - major || otherMinor - minor)
  expect(engines.node).toBe(`>=${needed[0]!.join('.')}`)
})
