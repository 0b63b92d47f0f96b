import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { readFile, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { makeFolder } from './support/folder.ts'

const ROOT = join(import.meta.dirname, '..')

let folder: string
const children = new Set<ReturnType<typeof spawn>>()

beforeEach(async () => {
  folder = await makeFolder('start')
})

afterEach(async () => {
  for (const child of children) child.kill('SIGKILL')
  await rm(folder, { recursive: true, force: true })
})

/** Starts it as `npm start` does, on a database of its own. */
async function start() {
  const child = spawn(process.execPath, [join(ROOT, 'src/main.ts')], {
    cwd: folder,
    env: { PATH: process.env['PATH'], HTTP_PORT: '0', GRPC_PORT: '0', LOG_LEVEL: 'error' },
    stdio: ['ignore', 'pipe', 'pipe'],
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
    timeout: 20_000,
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

function hasCurl(): boolean {
  try {
    execFileSync('curl', ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

async function createAccount({ http_url: url, secret_key: key }: Record<string, string>) {
  const response = await fetch(`${url}/v2/thirdparty/generateVirtualAccount/`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      reference: 'order-7',
      email: 'ada@example.com',
      phone: '08012345678',
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
    for (const signal of ['SIGINT', 'SIGTERM'] as const) {
      const child = spawn(process.execPath, [join(ROOT, program), ...args], {
        cwd: folder,
        env: { PATH: process.env['PATH'], HTTP_PORT: '0', GRPC_PORT: '0', LOG_LEVEL: 'error' },
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

test.skipIf(!hasCurl())(
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
