import { execFileSync } from 'node:child_process'
import { closeSync, constants, openSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'

/**
 * A custom setting that records the owning Inflow on the command line of the postmaster. Unlike a file, it exists
 * exactly as long as the postmaster: a crash leaves nothing behind, and PostgreSQL's own lock decides
 * which of two starts wins.
 */
export function ownerSetting(): string {
  const self = liveProcess(process.pid)
  return `inflow.owner=${process.pid}-${self?.startedAt ?? 0}`
}

/**
 * Stops the PostgreSQL of the cluster (a real path) if its Inflow was killed.
 *
 * @param folder the path of the cluster in messages
 * @throws Error if the owner of the running PostgreSQL is alive
 */
export async function stopOrphan(
  cluster: string,
  folder: string,
  log: (line: string) => void,
): Promise<void> {
  const postmaster = postmasterOf(cluster, folder)
  if (postmaster === undefined) return
  const owner = ownerOf(postmaster)
  if (owner === undefined) {
    throw new Error(
      `a PostgreSQL that Inflow did not start (process ${postmaster.pid}) is using ${folder}; ` +
        'stop it or set DATA_DIR',
    )
  }
  if (owner.pid === process.pid && isLive(owner)) {
    throw new Error(`this process (${owner.pid}) is using ${folder} already`)
  }
  if (isLive(owner)) {
    throw new Error(
      `another Inflow (process ${owner.pid}) is using ${folder}; stop it or set DATA_DIR`,
    )
  }
  log(`stopping PostgreSQL (process ${postmaster.pid}), left behind by an Inflow that was killed`)
  const isGone = () => !isLive(postmaster)
  await endPostmaster(postmaster.pid, (signal) => process.kill(postmaster.pid, signal), isGone)
}

/**
 * The port of the cluster's PostgreSQL if the Inflow that started it is alive; undefined if the server does not run or is an
 * orphan.
 */
export function portInUse(cluster: string, folder: string): number | undefined {
  const postmaster = postmasterOf(cluster, folder)
  const owner = postmaster && ownerOf(postmaster)
  if (owner === undefined || !isLive(owner)) return undefined
  // The fourth line of the lock file is the port.
  const port = Number(lockFile(cluster)?.split('\n')[3])
  return Number.isInteger(port) && port > 0 ? port : undefined
}

/**
 * PostgreSQL does not start while the process in its lock file is alive, even if the postmaster is dead and another program
 * has got its process id. If that is certain, this writes the id of our own process into the file: the new postmaster
 * treats a lock file of its parent as stale, but still checks shared memory for surviving children of the old postmaster,
 * which it could not do without the file.
 */
export async function disarmStaleLock(cluster: string, folder: string): Promise<void> {
  const before = lockFile(cluster)
  // After this delay, a postmaster that has just written the file can be recognized.
  await delay(LOCK_WAIT_MS)
  if (before === undefined || postmasterOf(cluster, folder) !== undefined) return
  if (lockFile(cluster) !== before) return
  const [, ...rest] = before.split('\n')
  // O_NOFOLLOW: another user owns the folder, and could have placed a link for root to follow.
  const flag = constants.O_WRONLY | constants.O_TRUNC | constants.O_NOFOLLOW
  const handle = openSync(lockPath(cluster), flag)
  writeFileSync(handle, [process.pid, ...rest].join('\n'))
  closeSync(handle)
}

/** Requests a fast shutdown, and after a time-out an immediate one, which costs a recovery at the next start. */
export async function endPostmaster(
  pid: number,
  send: (signal: NodeJS.Signals) => void,
  isGone: () => boolean,
): Promise<void> {
  for (const signal of ['SIGINT', 'SIGQUIT'] as const) {
    if (isGone()) return
    try {
      send(signal)
    } catch (error) {
      if (!isGone()) throw error
    }
    if (await becomesTrue(isGone, STOP_TIMEOUT_MS)) return
  }
  throw new Error(`PostgreSQL (process ${pid}) does not stop; end it with kill -9 ${pid}`)
}

const LOCK_WAIT_MS = 100
const STOP_TIMEOUT_MS = 10_000

/** The live process in the lock file of the cluster, if it is a postmaster of this cluster. */
function postmasterOf(cluster: string, folder: string): ProcessIdentity | undefined {
  // The process id is negative in single-user mode.
  const pid = Math.abs(Number.parseInt(lockFile(cluster) ?? '', 10))
  const found = Number.isNaN(pid) ? undefined : liveProcess(pid)
  if (found === undefined) return undefined
  const command = commandLine(pid)
  if (command !== undefined && !command.includes('postgres')) return undefined
  // The working directory of every server process is its data folder.
  const working = workingFolder(pid)
  if (working !== undefined) return working === cluster ? found : undefined
  if (command?.includes(` -D ${cluster} `)) return found
  throw new Error(
    `process ${pid} may be a PostgreSQL that is using ${folder}; stop it, ` +
      `or remove ${lockPath(cluster)} if it is not`,
  )
}

function ownerOf(postmaster: ProcessIdentity): ProcessIdentity | undefined {
  const match = / inflow\.owner=(\d+)-(\d+) /.exec(`${commandLine(postmaster.pid) ?? ''} `)
  return match === null ? undefined : { pid: Number(match[1]), startedAt: Number(match[2]) }
}

function lockFile(cluster: string): string | undefined {
  try {
    return readFileSync(lockPath(cluster), 'utf8')
  } catch {
    return undefined
  }
}

function lockPath(cluster: string): string {
  return join(cluster, 'postmaster.pid')
}

/** Identifies a process. Its id alone is not enough, because the system reuses the ids of dead processes. */
interface ProcessIdentity {
  readonly pid: number
  /** The start time of the process: ticks since boot on Linux, milliseconds elsewhere. */
  readonly startedAt: number
}

/** The live process with an id; undefined if no process or only a zombie has the id. */
export function liveProcess(pid: number): ProcessIdentity | undefined {
  const startedAt = process.platform === 'linux' ? linuxStart(pid) : psStart(pid)
  return startedAt === undefined ? undefined : { pid, startedAt }
}

export function isLive({ pid, startedAt }: ProcessIdentity): boolean {
  return liveProcess(pid)?.startedAt === startedAt
}

/** The command line, separated by single spaces; undefined if it cannot be read. */
function commandLine(pid: number): string | undefined {
  if (process.platform !== 'linux') return ps(pid, 'command=')
  return attempt(() => readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' '))
}

/** The working directory; undefined if it cannot be read. */
function workingFolder(pid: number): string | undefined {
  return attempt(() => readlinkSync(`/proc/${pid}/cwd`))
}

/** Polls a cheap condition; false if it does not become true in time. */
async function becomesTrue(condition: () => boolean, timeoutMs: number): Promise<boolean> {
  const deadline = performance.now() + timeoutMs
  while (!condition()) {
    if (performance.now() > deadline) return false
    await delay(POLL_MS)
  }
  return true
}

const POLL_MS = 10

/** Reads the start time after the name of the program, which is in parentheses and may contain anything: see proc(5). */
function linuxStart(pid: number): number | undefined {
  const stat = attempt(() => readFileSync(`/proc/${pid}/stat`, 'utf8'))
  if (stat === undefined) return undefined
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const [state] = fields
  return state === 'Z' || state === 'X' ? undefined : Number(fields[19])
}

function psStart(pid: number): number | undefined {
  if (ps(pid, 'state=')?.startsWith('Z')) return undefined
  const startedAt = Date.parse(ps(pid, 'lstart=') ?? '')
  return Number.isNaN(startedAt) ? undefined : startedAt
}

function ps(pid: number, column: string): string | undefined {
  const args = ['-ww', '-o', column, '-p', String(pid)]
  // Makes ps print dates that Date.parse can read.
  const env = { LC_ALL: 'C' }
  return attempt(() =>
    execFileSync('/bin/ps', args, { encoding: 'utf8', env, stdio: ['ignore', 'pipe', 'ignore'] }),
  )?.trim()
}

function attempt<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch {
    return undefined
  }
}
