import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { writePrivate } from '../../src/core/private-file.ts'
import { readKeyFiles } from '../../src/crypto/key-files.ts'
import { platformPackage, readyBinaries } from '../../src/postgres/embedded/binaries.ts'
import { startEmbedded } from '../../src/postgres/embedded/embedded.ts'
import { liveProcess } from '../../src/postgres/embedded/rival.ts'
import {
  closedFolder,
  type ServerUser,
  serverUser,
} from '../../src/postgres/embedded/server-user.ts'
import { query } from '../support/database.ts'
import { WAIT_LIMIT_MS } from '../support/wait-for.ts'
import { isRoot, linkTarget, postmasterId, scratch, service, start } from './embedded-fixture.ts'

describe('a start', () => {
  test('creates a durable cluster with the database inflow and a password, gives PostgreSQL no other secret, and leaves no process', async () => {
    process.env['MASTER_KEY'] = 'a-secret-of-the-service'
    onTestFinished(() => void delete process.env['MASTER_KEY'])
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
      database: 'inflow',
      role: 'inflow',
      fsync: 'on',
      commit: 'on',
      pages: 'on',
      sums: 'on',
      encoding: 'UTF8',
      memory: '7MB',
      addresses: '127.0.0.1',
      locale: 'C.UTF-8',
    })
    expect(statSync(`${folder}.password`).mode & 0o777).toBe(0o600)
    const wrong = new URL(server.url)
    expect(wrong.port).toBe(String(server.port))
    wrong.password = 'wrong'
    await expect(query(wrong.href, 'select')).rejects.toThrow('password authentication failed')
    await expect(startEmbedded({ folder })).rejects.toThrow('is using')
    const pid = postmasterId(folder)
    const { password } = new URL(server.url)
    expect(password.length).toBeGreaterThan(20)
    for (const name of ['environ', 'cmdline'].filter(() => existsSync('/proc/self/environ'))) {
      const text = readFileSync(`/proc/${pid}/${name}`, 'utf8')
      expect(text).not.toContain('a-secret-of-the-service')
      expect(text).not.toContain(password)
    }
    await Promise.all([server.stop(), server.stop()])
    await server.stop()
    expect(liveProcess(pid)).toBeUndefined()
    expect(readdirSync(dirname(folder)).sort()).toEqual([
      'postgres',
      'postgres.log',
      'postgres.password',
    ])
  })

  test('keeps the data when the previous port is taken, and bounds the log', async () => {
    const folder = scratch()
    const first = await start({ folder })
    await query(first.url, 'create table kept as select 42 as answer')
    await first.stop()
    truncateSync(`${folder}.log`, 10 * 1024 * 1024 + 1)
    const squatter = createServer().listen(first.port, '127.0.0.1')
    await once(squatter, 'listening')
    onTestFinished(() => void squatter.close())
    const second = await start({ folder })
    expect(second.port).not.toBe(first.port)
    expect(statSync(`${folder}.log.1`).size).toBe(10 * 1024 * 1024 + 1)
    expect(statSync(`${folder}.log`).size).toBeLessThan(10_000)
    expect(await query(second.url, 'table kept')).toEqual([{ answer: 42 }])
    // As a start leaves it that is killed before it creates the database.
    await query(second.url.replace(/inflow$/, 'postgres'), 'drop database inflow')
    await second.stop()
    const third = await start({ folder })
    expect(await query(third.url, 'select 1 as one')).toEqual([{ one: 1 }])
  })

  // The kill must come before `initdb` has ended.
  test('removes the leftovers of a killed initdb and creates a complete cluster', {
    retry: 5,
  }, async () => {
    const folder = scratch()
    const killed = service(folder)
    const work = () => readdirSync(dirname(folder)).filter((name) => name.includes('.new-'))
    const control = () => {
      if (existsSync(folder)) throw new Error('initdb ended before it was seen')
      return work().some((name) => existsSync(join(folder, '..', name, 'cluster/base')))
    }
    await vi.waitUntil(control, { timeout: WAIT_LIMIT_MS, interval: 1 })
    await killed.kill()
    expect(work()).toHaveLength(1)
    expect(existsSync(folder)).toBe(false)
    const { url } = await start({ folder })
    expect(await query(url, 'select 1 as one')).toEqual([{ one: 1 }])
    expect(work()).toEqual([])
  })

  test('reports the output of a PostgreSQL that fails to start', async () => {
    const folder = scratch()
    const starting = startEmbedded({ folder, settings: { shared_buffers: 'plenty' } })
    await expect(starting).rejects.toThrow('invalid value for parameter "shared_buffers": "plenty"')
  })

  test('does not touch a folder with other files', async () => {
    const folder = scratch()
    mkdirSync(folder)
    writeFileSync(join(folder, 'letter.txt'), 'Dear')
    await expect(startEmbedded({ folder })).rejects.toThrow('not a PostgreSQL cluster')
    expect(readdirSync(folder)).toEqual(['letter.txt'])
  })
})

describe.runIf(isRoot)('as root', () => {
  test('a closed folder holds a link to a cluster in /var/lib/inflow; without that, it is an error, not a new database', async () => {
    const folder = scratch(0o700)
    const lines: string[] = []
    const first = await start({ folder, log: (line) => lines.push(line) })
    await query(first.url, 'create table kept as select 42 as answer')
    expect(readlinkSync(folder)).toMatch(/^\/var\/lib\/inflow\/[0-9a-f]{16}\/cluster$/)
    expect(lines.join('\n')).toContain(`may not enter ${dirname(folder)}`)
    expect(statSync(`/proc/${postmasterId(folder)}`).uid).not.toBe(0)
    await first.stop()
    lines.length = 0
    const second = await start({ folder, log: (line) => lines.push(line) })
    expect(await query(second.url, 'table kept')).toEqual([{ answer: 42 }])
    expect(readdirSync(dirname(folder)).filter((name) => name.includes('.new-'))).toEqual([])
    // Each start says where the files are, if not in the folder, and why.
    expect(lines.join('\n')).toMatch(
      /^PostgreSQL's files are in \/var\/lib\/inflow\/\w+\/cluster, as \w+ may not enter \S+$/m,
    )
    await second.stop()
    rmSync(dirname(readlinkSync(folder)), { recursive: true })
    // The clean-up removes the target of the link.
    onTestFinished(() => void mkdirSync(dirname(readlinkSync(folder)), { recursive: true }))
    await expect(startEmbedded({ folder })).rejects.toThrow('which is gone')
  })

  test('a start killed in a closed folder leaves nothing in /var/lib/inflow', {
    retry: 5,
  }, async () => {
    const folder = scratch(0o700)
    const killed = service(folder)
    const parent = dirname(folder)
    const find = () => readdirSync(parent).map((name) => linkTarget(join(parent, name)))
    const work = () => find().find((target) => target !== undefined)
    await vi.waitUntil(() => existsSync(join(work() ?? '/absent', 'base')), {
      interval: 1,
      timeout: WAIT_LIMIT_MS,
    })
    const left = work() ?? ''
    await killed.kill()
    expect(existsSync(left)).toBe(true)
    await start({ folder })
    expect(existsSync(dirname(left))).toBe(false)
  })

  test('the server runs as an unprivileged user, who owns the cluster, also one that root restored', async () => {
    const folder = scratch()
    const first = await start({ folder })
    const uid = statSync(folder).uid
    expect(uid).not.toBe(0)
    expect(statSync(`/proc/${postmasterId(folder)}`).uid).toBe(uid)
    expect(readFileSync(`/proc/${postmasterId(folder)}/status`, 'utf8')).toMatch(/^Groups:\s*$/m)
    expect(statSync(`${folder}.password`).uid).toBe(0)
    await first.stop()
    for (const name of ['', ...readdirSync(folder, { recursive: true, encoding: 'utf8' })]) {
      chownSync(join(folder, name), 0, 0)
    }
    const { url } = await start({ folder })
    expect(await query(url, 'select 1 as one')).toEqual([{ one: 1 }])
    expect(statSync(folder).uid).toBe(uid)
  })

  test('inaccessible programs are copied once, with their links, and repaired', async () => {
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
    // A folder that others may write to is not trusted.
    chmodSync(dirname(dirname(bin)), 0o777)
    expect(dirname(dirname(dirname(await readyBinaries(options))))).not.toBe(dirname(dirname(bin)))
  })

  test('a start as root in a user’s folder leaves all to the user, who starts it afterwards', async ({
    skip,
  }) => {
    const user = { name: 'daemon', uid: 1, gid: 1 }
    const needed = [dirname(process.execPath), import.meta.dirname, platformPackage()]
    const closed = (await Promise.all(needed.map((path) => closedFolder(path, user)))).find(Boolean)
    skip(closed !== undefined, `${user.name} may not enter ${closed}`)
    // The home of a user, closed to others. The data folder does not exist yet.
    const home = dirname(scratch(0o700))
    chownSync(home, user.uid, user.gid)
    const dataDir = join(home, 'project', '.inflow')
    const lines: string[] = []
    const root = await start({ folder: join(dataDir, 'postgres'), log: (line) => lines.push(line) })
    await writePrivate(dataDir, 'credentials.json', '{}')
    await readKeyFiles(dataDir)
    expect(statSync(`/proc/${postmasterId(join(dataDir, 'postgres'))}`).uid).toBe(user.uid)
    await root.stop()
    expect(lines.join()).not.toContain('/var/lib/inflow')
    const paths = readdirSync(home, { recursive: true, encoding: 'utf8' })
    expect(paths).toContain('project/.inflow/master.key')
    expect(paths).toContain('project/.inflow/postgres.log')
    expect(paths).toContain('project/.inflow/postgres/PG_VERSION')
    expect(paths.filter((path) => lstatSync(join(home, path)).uid !== user.uid)).toEqual([])
    const own = service(join(dataDir, 'postgres'), { user })
    expect((await own.said).error).toBeUndefined()
    await own.kill()
    // Root follows no link that the user has put in its way.
    const target = join(dirname(scratch()), 'of-root')
    writeFileSync(target, 'kept')
    symlinkSync(target, join(dataDir, 'credentials.json.new'))
    await expect(writePrivate(dataDir, 'credentials.json', '{}')).rejects.toThrow('ELOOP')
    expect(readFileSync(target, 'utf8')).toBe('kept')
    expect(statSync(target).uid).toBe(0)
  })
})

async function versionOf(program: string, user: ServerUser | undefined): Promise<string> {
  const child = spawn(program, ['--version'], { cwd: '/', ...(user && { uid: user.uid }) })
  const [chunk] = await once(child.stdout, 'data')
  return String(chunk)
}
