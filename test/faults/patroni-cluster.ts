import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chownSync,
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import { expect, onTestFinished, vi } from 'vitest'
import { serverUser, spawnAs } from '../../src/postgres/embedded/server-user.ts'
import { isInstalled, readOps } from '../ops/settings-of.ts'
import { query } from '../support/database.ts'
import { makeFolder } from '../support/folder.ts'
import { freePort } from '../support/free-port.ts'
import { findPostgres } from '../support/postgres-server.ts'
import { killAll, processesIn } from '../support/processes.ts'
import { WAIT_LIMIT_MS, waitUntil } from '../support/wait-for.ts'

const HAPROXY = '/usr/sbin/haproxy'

const BIN = findPostgres() ?? 'none'

/** Whether Debian's packages are installed: patroni, etcd-server, haproxy, postgresql. */
export const hasPatroni = ['patroni', 'etcd', HAPROXY, join(BIN, 'pg_rewind')].every(isInstalled)

/** Reading the roles takes four calls of Patroni and a connection; a failover takes half a minute. */
const WAIT_FOR_ROLES = { timeout: WAIT_LIMIT_MS, interval: 500 }
/** Of each log, if the test fails. */
const LINES_SHOWN = 60
const PASSWORD = 'a-password-of-the-test'

/** A program that works in a folder of its own, with the processes that it starts there. */
export interface Program {
  start(): void
  /** Kills all its processes, as when the power fails. */
  kill(): Promise<void>
  /** Stops all its processes. Their connections stay open, and are silent. */
  freeze(): void
  thaw(): void
  /** Its output so far. */
  log(): string
}

/** A machine of the cluster: Patroni and its PostgreSQL. */
export interface Member extends Program {
  readonly name: string
  readonly dataFolder: string
  /** Of its PostgreSQL, as superuser. */
  readonly url: string
  /** Of Patroni's REST API. */
  readonly apiUrl: string
}

interface Roles {
  readonly leader: Member
  /** The standby that commits wait for; undefined in an asynchronous cluster. */
  readonly synchronous: Member | undefined
}

export interface Cluster {
  /** Of the service's database at the primary, by way of HAProxy. */
  readonly url: string
  /** The same, as superuser. */
  readonly superuserUrl: string
  readonly etcd: Program
  /** Waits until one member leads and so many standbys follow it; by default two. */
  settled(standbys?: number): Promise<Roles>
  /** As `patronictl switchover` does. */
  switchover(from: Member, to: Member): Promise<void>
  /** As `patronictl edit-config` does. */
  becomeAsynchronous(): Promise<void>
}

/** Starts a cluster of three with the files that operators install. The test ends it. */
export async function startCluster(): Promise<Cluster> {
  const folder = await makeFolder('patroni')
  onTestFinished(async ({ task }) => {
    if (task.result?.state === 'fail') showLogs(folder)
    await killWithin(folder)
    rmSync(folder, { recursive: true, force: true })
  })
  const ports = { etcd: await freePort(), patroni: await freePort() }
  const etcd = await prepareEtcd(folder, ports.etcd)
  // Each machine has its own address, as elsewhere.
  const members = [
    await prepareMember(folder, 'db1', '127.0.0.1', ports),
    await prepareMember(folder, 'db2', '127.0.0.2', ports),
    await prepareMember(folder, 'db3', '127.0.0.3', ports),
  ]
  const databasePort = await freePort()
  const haproxy = prepare(join(folder, 'haproxy'), HAPROXY, ['-db', '-f', 'haproxy.cfg'], {
    ...environmentOf('haproxy.env'),
    DATABASE_PORT: databasePort,
    PATRONI_PORT: ports.patroni,
    ...Object.fromEntries(members.map(({ name, url }) => [name.toUpperCase(), new URL(url).host])),
  })
  place(join(folder, 'haproxy/haproxy.cfg'), readOps('patroni/haproxy.cfg'))
  for (const program of [etcd, haproxy, ...members]) program.start()
  let isSynchronous = true
  const roles = (standbys = members.length - 1) =>
    vi.waitFor(() => readRoles(members, standbys, isSynchronous), WAIT_FOR_ROLES)
  const { leader } = await roles()
  // As the guide says.
  await query(leader.url, `create role inflow login password '${PASSWORD}'`)
  await query(leader.url, 'grant pg_monitor to inflow')
  await query(leader.url, 'create database inflow owner inflow')
  const urlOf = (role: string) => `postgres://${role}:${PASSWORD}@127.0.0.1:${databasePort}/inflow`
  return {
    url: urlOf('inflow'),
    superuserUrl: urlOf('postgres'),
    etcd,
    settled: roles,
    async switchover(from, to) {
      const body = JSON.stringify({ leader: from.name, candidate: to.name })
      await callPatroni(from, '/switchover', { method: 'POST', body })
    },
    async becomeAsynchronous() {
      const { leader } = await roles()
      const body = JSON.stringify({ synchronous_mode: false })
      await callPatroni(leader, '/config', { method: 'PATCH', body })
      isSynchronous = false
      await roles()
    },
  }
}

function showLogs(folder: string): void {
  for (const name of readdirSync(folder).filter((each) => each.endsWith('.log'))) {
    const lines = readFileSync(join(folder, name), 'utf8').split('\n')
    process.stderr.write(`${name}:\n${lines.slice(-LINES_SHOWN).join('\n')}\n`)
  }
}

/** The variables of a file that operators fill in. */
const environmentOf = (name: string) => parseEnv(readOps(`patroni/${name}`))

async function prepareEtcd(folder: string, port: string): Promise<Program> {
  const [url, peerUrl] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${await freePort()}`]
  return prepare(join(folder, 'etcd'), 'etcd', ['--log-level', 'warn'], {
    ...environmentOf('etcd.env'),
    ETCD_DATA_DIR: join(folder, 'etcd/data'),
    ETCD_LISTEN_CLIENT_URLS: url,
    ETCD_ADVERTISE_CLIENT_URLS: url,
    ETCD_LISTEN_PEER_URLS: peerUrl,
    ETCD_INITIAL_ADVERTISE_PEER_URLS: peerUrl,
    ETCD_INITIAL_CLUSTER: `db1=${peerUrl}`,
  })
}

async function prepareMember(
  parent: string,
  name: string,
  address: string,
  ports: { readonly patroni: string; readonly etcd: string },
): Promise<Member> {
  const folder = join(parent, name)
  const dataFolder = join(folder, 'data')
  const [postgres, patroni] = [`${address}:${await freePort()}`, `${address}:${ports.patroni}`]
  const program = prepare(folder, 'patroni', [folder], {
    ...environmentOf('patroni.env'),
    PATRONI_NAME: name,
    PATRONI_RESTAPI_LISTEN: patroni,
    PATRONI_RESTAPI_CONNECT_ADDRESS: patroni,
    PATRONI_POSTGRESQL_LISTEN: postgres,
    PATRONI_POSTGRESQL_CONNECT_ADDRESS: postgres,
    PATRONI_POSTGRESQL_BIN_DIR: BIN,
    PATRONI_POSTGRESQL_DATA_DIR: dataFolder,
    PATRONI_POSTGRESQL_PGPASS: join(folder, 'pgpass'),
    PATRONI_ETCD3_HOSTS: `127.0.0.1:${ports.etcd}`,
    PATRONI_SUPERUSER_PASSWORD: PASSWORD,
    PATRONI_REPLICATION_PASSWORD: PASSWORD,
    PATRONI_REWIND_PASSWORD: PASSWORD,
    PATRONI_RESTAPI_PASSWORD: PASSWORD,
  })
  place(join(folder, 'patroni.yml'), readOps('patroni/patroni.yml'))
  // Patroni reads all such files of the folder. Debian's folder for sockets is closed to other users.
  const sockets = `postgresql: { parameters: { unix_socket_directories: ${folder} } }`
  place(join(folder, 'sockets.yml'), sockets)
  return {
    ...program,
    name,
    dataFolder,
    apiUrl: `http://${patroni}`,
    url: `postgres://postgres:${PASSWORD}@${postgres}/postgres`,
  }
}

async function readRoles(
  members: readonly Member[],
  standbys: number,
  isSynchronous: boolean,
): Promise<Roles> {
  const leader = await findLeader(members)
  const { members: listed } = JSON.parse(await callPatroni(leader, '/cluster')) as {
    members: { name: string; role: string }[]
  }
  const streaming = await query<{ name: string; state: string }>(
    leader.url,
    `select application_name as name, sync_state as state from pg_stat_replication
      where state = 'streaming'`,
  )
  expect(streaming).toHaveLength(standbys)
  const name = streaming.find(({ state }) => state === 'sync')?.name
  expect(name !== undefined).toBe(isSynchronous)
  // Patroni promotes it only once it has listed it.
  expect(listed.find(({ role }) => role === 'sync_standby')?.name).toBe(name)
  return { leader, synchronous: members.find((member) => member.name === name) }
}

async function findLeader(members: readonly Member[]): Promise<Member> {
  const responses = await Promise.allSettled(
    members.map(({ apiUrl }) => fetch(`${apiUrl}/primary`, { signal: AbortSignal.timeout(1_000) })),
  )
  const leaders = members.filter((_, index) => {
    const response = responses[index]
    return response?.status === 'fulfilled' && response.value.ok
  })
  expect(leaders).toHaveLength(1)
  return leaders[0]!
}

async function callPatroni(member: Member, path: string, init: RequestInit = {}): Promise<string> {
  const response = await fetch(member.apiUrl + path, {
    ...init,
    headers: { authorization: `Basic ${btoa(`patroni:${PASSWORD}`)}` },
    signal: AbortSignal.timeout(60_000),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`${path} of ${member.name}: ${response.status} ${text}`)
  return text
}

/** Makes a file or folder accessible to the programs, which do not run as root. */
function give(path: string): void {
  const user = serverUser(path)
  if (user !== undefined) chownSync(path, user.uid, user.gid)
}

function place(file: string, text: string): void {
  writeFileSync(file, text)
  give(file)
}

function prepare(
  folder: string,
  command: string,
  args: readonly string[],
  environment: NodeJS.ProcessEnv,
): Program {
  const logFile = `${folder}.log`
  mkdirSync(folder)
  give(folder)
  let child: ChildProcess
  return {
    start() {
      const log = openSync(logFile, 'a')
      child = spawn(command, args, {
        ...spawnAs(serverUser(folder)),
        cwd: folder,
        stdio: ['ignore', log, log],
        env: { PATH: process.env['PATH'], HOME: folder, LC_ALL: 'C.UTF-8', ...environment },
      })
      closeSync(log)
    },
    async kill() {
      const isRunning = child.exitCode === null && child.signalCode === null
      await Promise.all([isRunning && once(child, 'exit'), killWithin(folder)])
    },
    freeze() {
      // Once more if a process was started meanwhile.
      for (let before = -1, count = 0; count !== before; ) {
        before = count
        count = signalWithin(folder, 'SIGSTOP')
      }
    },
    thaw: () => void signalWithin(folder, 'SIGCONT'),
    log: () => readFileSync(logFile, 'utf8'),
  }
}

function signalWithin(folder: string, signal: NodeJS.Signals): number {
  const processes = processesIn(folder)
  for (const { pid } of processes) {
    try {
      process.kill(pid, signal)
    } catch {
      // It has ended.
    }
  }
  return processes.length
}

async function killWithin(folder: string): Promise<void> {
  await waitUntil(() => {
    const left = processesIn(folder)
    killAll(left)
    return left.length === 0
  })
}
