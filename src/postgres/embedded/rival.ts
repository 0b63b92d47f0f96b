import { closeSync, constants, openSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import {
  becomesTrue,
  commandLine,
  isLive,
  liveProcess,
  type ProcessIdentity,
  workingFolder,
} from './process.ts'

/**
 * A custom setting that records the owner on the postmaster's command line. Unlike a file, it exists
 * exactly as long as the postmaster: a crash leaves nothing behind, and PostgreSQL's own lock decides
 * which of two starts wins.
 */
export function ownerSetting(): string {
  const self = liveProcess(process.pid)
  return `inflow.owner=${process.pid}-${self?.startedAt ?? 0}`
}

/**
 * Stops a PostgreSQL on the cluster (a real path) whose Inflow was killed. Throws if the owner of the
 * running PostgreSQL is alive. `folder` is the cluster's path in messages.
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
 * The port of the cluster's PostgreSQL while the Inflow that started it is alive; undefined if there
 * is none, or it is an orphan.
 */
export function portInUse(cluster: string, folder: string): number | undefined {
  const postmaster = postmasterOf(cluster, folder)
  const owner = postmaster && ownerOf(postmaster)
  if (owner === undefined || !isLive(owner)) return undefined
  // The fourth line of the lock file.
  const port = Number(lockFile(cluster)?.split('\n')[3])
  return Number.isInteger(port) && port > 0 ? port : undefined
}

/**
 * PostgreSQL does not start while the process in its lock file is alive, even if another program has got
 * a dead postmaster's id. If that is certain, writes this process's id instead: the new postmaster
 * treats a lock of its parent as stale, but still checks shared memory for surviving children of the
 * old one, which it could not do without the file.
 */
export async function disarmStaleLock(cluster: string, folder: string): Promise<void> {
  const before = lockFile(cluster)
  // A postmaster that has just written the file is visible after this delay.
  await delay(LOCK_WAIT_MS)
  if (before === undefined || postmasterOf(cluster, folder) !== undefined) return
  if (lockFile(cluster) !== before) return
  const [, ...rest] = before.split('\n')
  // O_NOFOLLOW: another user owns the folder, and might have placed a link for root to follow.
  const flag = constants.O_WRONLY | constants.O_TRUNC | constants.O_NOFOLLOW
  const handle = openSync(lockPath(cluster), flag)
  writeFileSync(handle, [process.pid, ...rest].join('\n'))
  closeSync(handle)
}

/** Fast shutdown; after a timeout an immediate one, which costs a recovery at the next start. */
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

/** The live postmaster in the cluster's lock file, if it is one of this cluster. */
function postmasterOf(cluster: string, folder: string): ProcessIdentity | undefined {
  // The id is negative in single-user mode.
  const pid = Math.abs(Number.parseInt(lockFile(cluster) ?? '', 10))
  const found = Number.isNaN(pid) ? undefined : liveProcess(pid)
  if (found === undefined) return undefined
  const command = commandLine(pid)
  if (command !== undefined && !command.includes('postgres')) return undefined
  // The working folder of every server process is its data folder.
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
