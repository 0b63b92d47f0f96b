import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { Client } from 'pg'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { type EmbeddedOptions, startEmbedded } from '../../src/store/embedded.ts'
import { platformPackage, readyBinaries } from '../../src/store/embedded-binaries.ts'
import { liveProcess } from '../../src/store/embedded-process.ts'
import { closedFolder, type ServerUser, serverUser } from '../../src/store/embedded-user.ts'

const isRoot = process.getuid?.() === 0
const MODULE = new URL('../../src/store/embedded.ts', import.meta.url).href

vi.setConfig({ testTimeout: 60_000 })

/** A temporary folder that PostgreSQL's user can enter, or with 0o700 not, and a name in it. */
function scratch(mode = 0o755): string {
  const parent = mkdtempSync(join(tmpdir(), 'inflow-embedded-'))
  chmodSync(parent, mode)
  const folder = join(parent, 'postgres')
  onTestFinished(() => {
    const cluster = linkTarget(folder)
    if (cluster?.startsWith('/var/lib/inflow/')) rmSync(dirname(cluster), { recursive: true })
    rmSync(parent, { recursive: true })
  })
  return folder
}

function linkTarget(path: string): string | undefined {
  try {
    return readlinkSync(path)
  } catch {
    return undefined
  }
}

async function start(options: EmbeddedOptions) {
  const server = await startEmbedded(options)
  onTestFinished(() => server.stop())
  return server
}

async function query(url: string, sql: string): Promise<Record<string, unknown>[]> {
  const client = new Client({ connectionString: url })
  // A server that goes away under an idle client is what some tests are about.
  client.on('error', () => undefined)
  await client.connect()
  try {
    return (await client.query(sql)).rows
  } finally {
    await client.end().catch(() => undefined)
  }
}

function postmasterId(folder: string): number {
  return Number.parseInt(readFileSync(join(folder, 'postmaster.pid'), 'utf8'), 10)
}

async function untilGone(pid: number): Promise<void> {
  await vi.waitFor(() => expect(liveProcess(pid)).toBeUndefined(), {
    timeout: 20_000,
    interval: 20,
  })
}

/** What a service in another process says: one line of JSON when it has started, or could not. */
interface Said {
  readonly url: string
  readonly error?: string
}

interface Service {
  readonly child: ChildProcess
  readonly said: Promise<Said>
  kill(): Promise<void>
}

/** Runs `also` in a process of its own once the server is up there, as `server`. */
function service(folder: string, { also = '', user }: { also?: string; user?: ServerUser } = {}) {
  const script = `
    const { startEmbedded } = await import(${JSON.stringify(MODULE)})
    const say = (what) => process.stdout.write(JSON.stringify(what) + '\\n')
    const hold = setInterval(() => {}, 60_000)
    try {
      const server = await startEmbedded({ folder: ${JSON.stringify(folder)} })
      ${also}
      say({ url: server.url, uid: process.getuid() })
    } catch (error) {
      say({ error: error.message })
      clearInterval(hold)
    }`
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    cwd: '/',
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { PATH: process.env['PATH'] },
    ...(user && { uid: user.uid, gid: user.gid }),
  })
  const ended = once(child, 'exit')
  const kill = async () => {
    child.kill('SIGKILL')
    await ended
  }
  onTestFinished(async () => {
    await kill()
    const pid = existsSync(join(folder, 'postmaster.pid')) ? postmasterId(folder) : undefined
    if (pid === undefined || liveProcess(pid) === undefined) return
    process.kill(pid, 'SIGINT')
    await untilGone(pid)
  })
  const said = once(createInterface(child.stdout), 'line').then(([line]): Said => JSON.parse(line))
  return { child, said, kill } satisfies Service
}

describe('a start', () => {
  test('makes a durable cluster with the database inflow, and stops without a trace', async () => {
    const folder = scratch()
    const server = await start({ folder, settings: { work_mem: '7MB', listen_addresses: '*' } })
    const [row] = await query(
      server.url,
      `select current_database() as database, current_user as role,
        current_setting('fsync') as fsync, current_setting('synchronous_commit') as commit,
        current_setting('full_page_writes') as pages, current_setting('data_checksums') as sums,
        current_setting('server_encoding') as encoding, current_setting('work_mem') as memory,
        current_setting('listen_addresses') as addresses,
        (select datlocale from pg_database where datname = 'inflow') as locale`,
    )
    expect(row).toEqual({
      ...{ database: 'inflow', role: 'inflow', fsync: 'on', commit: 'on', pages: 'on', sums: 'on' },
      ...{ encoding: 'UTF8', memory: '7MB', addresses: '127.0.0.1', locale: 'C.UTF-8' },
    })
    expect(statSync(`${folder}.password`).mode & 0o777).toBe(0o600)
    expect(new URL(server.url).port).toBe(String(server.port))
    const pid = postmasterId(folder)
    await Promise.all([server.stop(), server.stop()])
    await server.stop()
    expect(liveProcess(pid)).toBeUndefined()
    expect(readdirSync(dirname(folder)).sort()).toEqual([
      'postgres',
      'postgres.log',
      'postgres.password',
    ])
  })

  test('asks for the password', async () => {
    const { url } = await start({ folder: scratch() })
    const wrong = new URL(url)
    wrong.password = 'wrong'
    await expect(query(wrong.href, 'select')).rejects.toThrow('password authentication failed')
  })

  test('keeps the data of the last one when its port is taken', async () => {
    const folder = scratch()
    const first = await start({ folder })
    await query(first.url, 'create table kept as select 42 as answer')
    await first.stop()
    const squatter = createServer().listen(first.port, '127.0.0.1')
    await once(squatter, 'listening')
    onTestFinished(() => void squatter.close())
    const second = await start({ folder })
    expect(second.port).not.toBe(first.port)
    expect(await query(second.url, 'table kept')).toEqual([{ answer: 42 }])
  })

  test('makes up for a last one that was killed before it created the database', async () => {
    const folder = scratch()
    const first = await start({ folder })
    await query(first.url.replace(/inflow$/, 'postgres'), 'drop database inflow')
    await first.stop()
    const second = await start({ folder })
    expect(await query(second.url, 'select 1 as one')).toEqual([{ one: 1 }])
  })

  test('removes what a killed initdb left, and makes a whole cluster', async () => {
    const folder = scratch()
    const killed = service(folder)
    const work = () => readdirSync(dirname(folder)).filter((name) => name.includes('.new-'))
    const control = () =>
      work().some((name) => existsSync(join(folder, '..', name, 'cluster/base')))
    await vi.waitUntil(control, { timeout: 20_000, interval: 1 })
    await killed.kill()
    expect(work()).toHaveLength(1)
    expect(existsSync(folder)).toBe(false)
    const { url } = await start({ folder })
    expect(await query(url, 'select 1 as one')).toEqual([{ one: 1 }])
    expect(work()).toEqual([])
  })

  test('tells what PostgreSQL said when it would not start', async () => {
    const folder = scratch()
    const starting = startEmbedded({ folder, settings: { shared_buffers: 'plenty' } })
    await expect(starting).rejects.toThrow('invalid value for parameter "shared_buffers": "plenty"')
  })

  test('leaves a folder with other files alone', async () => {
    const folder = scratch()
    mkdirSync(folder)
    writeFileSync(join(folder, 'letter.txt'), 'Dear')
    await expect(startEmbedded({ folder })).rejects.toThrow('not a PostgreSQL cluster')
    expect(readdirSync(folder)).toEqual(['letter.txt'])
  })

  test('keeps one old log when the log has grown past its bound', async () => {
    const folder = scratch()
    writeFileSync(`${folder}.log`, '')
    truncateSync(`${folder}.log`, 10 * 1024 * 1024 + 1)
    await start({ folder })
    expect(statSync(`${folder}.log.1`).size).toBe(10 * 1024 * 1024 + 1)
    expect(statSync(`${folder}.log`).size).toBeLessThan(10_000)
  })
})

describe('after a crash', () => {
  test('of the service, the orphan is replaced and what was committed is there', async () => {
    const folder = scratch()
    const killed = service(folder)
    const { url } = await killed.said
    await query(url, 'create table kept as select 42 as answer')
    await killed.kill()
    const orphan = postmasterId(folder)
    expect(liveProcess(orphan)).toBeDefined()
    const lines: string[] = []
    const next = await start({ folder, log: (line) => lines.push(line) })
    expect(liveProcess(orphan)).toBeUndefined()
    expect(lines).toEqual([expect.stringContaining(`process ${orphan}`)])
    expect(await query(next.url, 'table kept')).toEqual([{ answer: 42 }])
  })

  test('of the server, the owner hears of it and the next start recovers', async () => {
    const folder = scratch()
    const lines: string[] = []
    const first = await start({ folder, log: (line) => lines.push(line) })
    await query(first.url, 'create table kept as select 42 as answer')
    process.kill(postmasterId(folder), 'SIGKILL')
    await vi.waitUntil(() => lines.some((line) => line.includes('ended by itself (SIGKILL)')))
    await first.stop()
    const second = await start({ folder })
    expect(await query(second.url, 'table kept')).toEqual([{ answer: 42 }])
  })

  test('a lock file that names another program now does not matter', async () => {
    const folder = scratch()
    const first = await start({ folder })
    const lock = readFileSync(join(folder, 'postmaster.pid'), 'utf8')
    await first.stop()
    const { uid, gid } = statSync(folder)
    const other = spawn('sleep', ['600'], isRoot ? { uid, gid } : {})
    onTestFinished(() => void other.kill())
    await once(other, 'spawn')
    const [, ...rest] = lock.split('\n')
    writeFileSync(join(folder, 'postmaster.pid'), [other.pid, ...rest].join('\n'))
    chownSync(join(folder, 'postmaster.pid'), uid, gid)
    const second = await start({ folder })
    expect(await query(second.url, 'select 1 as one')).toEqual([{ one: 1 }])
    expect(liveProcess(other.pid ?? 0)).toBeDefined()
  })
})

describe('two services on one folder', () => {
  test('the second is told who the first is, and the first is not disturbed', async () => {
    const folder = scratch()
    const first = service(folder)
    const { url } = await first.said
    const expected = `another Inflow (process ${first.child.pid}) is using ${folder}`
    await expect(startEmbedded({ folder })).rejects.toThrow(expected)
    expect(await query(url, 'select 1 as one')).toEqual([{ one: 1 }])
  })

  test('a process cannot start it twice', async () => {
    const folder = scratch()
    await start({ folder })
    await expect(startEmbedded({ folder })).rejects.toThrow('is using')
  })

  test.each(['a new', 'an existing', "a killed service's"])('one of many wins %s', async (kind) => {
    const folder = scratch()
    if (kind === 'an existing') await (await start({ folder })).stop()
    if (kind === "a killed service's") {
      const killed = service(folder)
      await killed.said
      await killed.kill()
    }
    const services = Array.from({ length: 4 }, () => service(folder))
    const said = await Promise.all(services.map((each) => each.said))
    const winner = services[said.findIndex((each) => each.error === undefined)]
    const told = `another Inflow (process ${winner?.child.pid}) is using ${folder}; stop it or set DATA_DIR`
    expect(said.map((each) => each.error).sort()).toEqual([told, told, told, undefined])
    const url = said.find((each) => each.error === undefined)?.url ?? ''
    expect(await query(url, 'select 1 as one')).toEqual([{ one: 1 }])
    expect(readdirSync(dirname(folder)).filter((name) => name.includes('.new-'))).toEqual([])
  })
})

describe('the end of the service', () => {
  test('by process.exit takes the server along', async () => {
    const folder = scratch()
    const also = "process.once('SIGTERM', () => process.exit(7))"
    const { child, said } = service(folder, { also })
    await said
    const pid = postmasterId(folder)
    const exited = once(child, 'exit')
    child.kill('SIGTERM')
    expect(await exited).toEqual([7, null])
    await untilGone(pid)
  })

  test('by running out of work is not held up by the server', async () => {
    const folder = scratch()
    const { child, said } = service(folder, { also: 'clearInterval(hold)' })
    const exited = once(child, 'exit')
    await said
    expect(await exited).toEqual([0, null])
    await vi.waitUntil(() => !existsSync(join(folder, 'postmaster.pid')), { timeout: 20_000 })
  })

  test('by Ctrl-C leaves the server to the service until it has finished', async () => {
    const folder = scratch()
    const pg = import.meta.resolve('pg')
    const also = `
      const { default: { Client } } = await import(${JSON.stringify(pg)})
      process.once('SIGINT', async () => {
        const client = new Client(server.url)
        await client.connect()
        await client.query('create table drained ()')
        await client.end()
        await server.stop()
        process.exit(7)
      })`
    const { child, said } = service(folder, { also })
    await said
    const exited = once(child, 'exit')
    // What a terminal does: a signal to all of the process group.
    process.kill(-(child.pid ?? Number.NaN), 'SIGINT')
    expect(await exited).toEqual([7, null])
    const { url } = await start({ folder })
    expect(await query(url, 'table drained')).toEqual([])
  })
})

describe.runIf(isRoot)('as root', () => {
  test('the server runs as an unprivileged user, who owns the cluster', async () => {
    const folder = scratch()
    await start({ folder })
    const uid = statSync(folder).uid
    expect(uid).not.toBe(0)
    expect(statSync(`/proc/${postmasterId(folder)}`).uid).toBe(uid)
    expect(readFileSync(`/proc/${postmasterId(folder)}/status`, 'utf8')).toMatch(/^Groups:\s*$/m)
    expect(statSync(`${folder}.password`).uid).toBe(0)
  })

  test('a closed folder holds a link to a cluster in /var/lib/inflow', async () => {
    const folder = scratch(0o700)
    const lines: string[] = []
    const first = await start({ folder, log: (line) => lines.push(line) })
    await query(first.url, 'create table kept as select 42 as answer')
    expect(readlinkSync(folder)).toMatch(/^\/var\/lib\/inflow\/[0-9a-f]{16}\/cluster$/)
    expect(lines.join('\n')).toContain(`may not enter ${dirname(folder)}`)
    expect(statSync(`/proc/${postmasterId(folder)}`).uid).not.toBe(0)
    await first.stop()
    const second = await start({ folder })
    expect(await query(second.url, 'table kept')).toEqual([{ answer: 42 }])
    expect(readdirSync(dirname(folder)).filter((name) => name.includes('.new-'))).toEqual([])
  })

  test('a start killed in a closed folder leaves nothing in /var/lib/inflow', async () => {
    const folder = scratch(0o700)
    const killed = service(folder)
    const parent = dirname(folder)
    const find = () => readdirSync(parent).map((name) => linkTarget(join(parent, name)))
    const work = () => find().find((target) => target !== undefined)
    await vi.waitUntil(() => existsSync(join(work() ?? '/absent', 'base')), { interval: 1 })
    const left = work() ?? ''
    await killed.kill()
    expect(existsSync(left)).toBe(true)
    await start({ folder })
    expect(existsSync(dirname(left))).toBe(false)
  })

  test('a link whose cluster is lost is an error, not a new database', async () => {
    const folder = scratch(0o700)
    await (await start({ folder })).stop()
    rmSync(dirname(readlinkSync(folder)), { recursive: true })
    // For the clean-up, which removes where the link leads.
    onTestFinished(() => void mkdirSync(dirname(readlinkSync(folder)), { recursive: true }))
    await expect(startEmbedded({ folder })).rejects.toThrow('which is gone')
  })

  test('a cluster restored by root gets its owner back', async () => {
    const folder = scratch()
    await (await start({ folder })).stop()
    for (const name of ['', ...readdirSync(folder, { recursive: true, encoding: 'utf8' })]) {
      chownSync(join(folder, name), 0, 0)
    }
    const { url } = await start({ folder })
    expect(await query(url, 'select 1 as one')).toEqual([{ one: 1 }])
  })

  test('programs out of reach are copied once, with their links, and mended', async () => {
    const parent = dirname(scratch(0o700))
    const cacheParent = dirname(scratch())
    const packageFolder = join(parent, 'package')
    cpSync(platformPackage(), packageFolder, { recursive: true, verbatimSymlinks: true })
    const lib = join(packageFolder, 'native', 'lib')
    rmSync(join(lib, 'libpq.so.5'))
    const lines: string[] = []
    const user = serverUser(parent)
    const options = { packageFolder, user, cacheParent, log: (line: string) => lines.push(line) }
    const bin = await readyBinaries(options)
    expect(bin.startsWith(`${cacheParent}/postgres-`)).toBe(true)
    expect(await versionOf(join(bin, 'initdb'), user)).toContain('PostgreSQL')
    truncateSync(join(bin, 'postgres'))
    expect(await readyBinaries(options)).toBe(bin)
    expect(await versionOf(join(bin, 'postgres'), user)).toContain('PostgreSQL')
    expect(lines).toHaveLength(1)
    expect(readdirSync(cacheParent)).toHaveLength(1)
    // A folder that others may write to could hold anything.
    chmodSync(dirname(dirname(bin)), 0o777)
    expect(dirname(dirname(dirname(await readyBinaries(options))))).not.toBe(dirname(dirname(bin)))
  })

  test('an ordinary user runs it all alone', async ({ skip }) => {
    const folder = scratch()
    const user = { name: 'nobody', uid: 65534, gid: 65534 }
    const needed = [dirname(process.execPath), import.meta.dirname, platformPackage()]
    const closed = (await Promise.all(needed.map((path) => closedFolder(path, user)))).find(Boolean)
    skip(closed !== undefined, `${user.name} may not enter ${closed}`)
    chownSync(dirname(folder), user.uid, user.gid)
    const { said, kill } = service(folder, { user })
    const { url, error } = await said
    expect(error).toBeUndefined()
    expect(await query(url, 'select 1 as one')).toEqual([{ one: 1 }])
    expect(statSync(`/proc/${postmasterId(folder)}`).uid).toBe(user.uid)
    await kill()
    const next = service(folder, { user })
    expect((await next.said).error).toBeUndefined()
  })
})

async function versionOf(program: string, user: ServerUser | undefined): Promise<string> {
  const child = spawn(program, ['--version'], { cwd: '/', ...(user && { uid: user.uid }) })
  const [chunk] = await once(child.stdout, 'data')
  return String(chunk)
}
