import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { constants, readFileSync } from 'node:fs'
import { type FileHandle, rename, stat } from 'node:fs/promises'
import { totalmem } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { freePorts } from '../../core/free-ports.ts'
import { openFor } from '../../core/private-file.ts'
import { disarmStaleLock, endPostmaster, ownerSetting, stopOrphan } from './rival.ts'
import { type ServerUser, spawnAs } from './server-user.ts'

interface PostmasterOptions {
  /** The folder of the program `postgres`. */
  readonly bin: string
  /** The real path of the cluster. */
  readonly cluster: string
  /** The path of the cluster in messages; the log is next to it. */
  readonly folder: string
  readonly user: ServerUser | undefined
  readonly settings: Readonly<Record<string, string>>
  readonly log: (line: string) => void
}

interface Postmaster {
  readonly port: number
  /** Resolves with the signal or exit code if the server ends without being stopped. */
  readonly died: Promise<string>
  /** Resolves when the server has ended. Idempotent. */
  stop(): Promise<void>
}

const ATTEMPTS_MAX = 50
const ATTEMPT_INTERVAL_MS = 100
/** The longest time without progress; recovery logs its progress every 10 s. */
const SILENCE_MAX_MS = 30_000
const POLL_MS = 10
const LOG_MAX_BYTES = 10 * 1024 * 1024
const LOG_TAIL_BYTES = 2048
const SHARED_BUFFERS_MIN_MIB = 128
const SHARED_BUFFERS_MAX_MIB = 1_024

/**
 * Settings of every embedded server. Durability is set explicitly, because the service guarantees it.
 * wal_compression stays off, because the builds for Linux have no lz4. JIT only helps queries that take seconds.
 */
const DEFAULTS: Readonly<Record<string, string>> = {
  fsync: 'on',
  synchronous_commit: 'on',
  full_page_writes: 'on',
  max_connections: '100',
  shared_buffers: `${sharedBuffersMib()}MB`,
  min_wal_size: '512MB',
  max_wal_size: '2GB',
  checkpoint_timeout: '15min',
  random_page_cost: '1.1',
  jit: 'off',
  timezone: 'UTC',
  log_timezone: 'UTC',
  log_min_messages: 'warning',
  log_checkpoints: 'off',
}

/**
 * An eighth of the memory, within bounds. PostgreSQL's documentation suggests a quarter for a dedicated
 * machine (19.4.1); here the service shares it.
 */
function sharedBuffersMib(): number {
  // 0 means no limit other than the machine's memory.
  const bytes = Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY)
  const eighth = Math.floor(bytes / 8 / 1024 ** 2)
  return Math.max(SHARED_BUFFERS_MIN_MIB, Math.min(eighth, SHARED_BUFFERS_MAX_MIB))
}

/** Starts the server and waits until it accepts connections. */
export async function startPostmaster(options: PostmasterOptions): Promise<Postmaster> {
  const { cluster, folder, log } = options
  await boundLog(logPath(folder))
  let output = ''
  for (let attempt = 0; attempt < ATTEMPTS_MAX; attempt++) {
    await stopOrphan(cluster, folder, log)
    const [port = 0] = await freePorts('127.0.0.1', [0])
    const launched = await launch(options, port)
    if (typeof launched !== 'string') return running(launched, port, log)
    output = launched
    // Transient causes: another program took the port; the lock file is stale or of another start, which the next
    // stopOrphan determines; children of a killed postmaster have not ended yet.
    if (output.includes('could not create any TCP/IP sockets')) continue
    if (/lock file ".*" (already exists|is empty)/.test(output)) {
      await disarmStaleLock(cluster, folder)
    } else if (output.includes('shared memory block')) {
      await delay(ATTEMPT_INTERVAL_MS)
    } else {
      break
    }
  }
  throw new Error(`PostgreSQL does not start; the end of ${logPath(folder)}:\n${output}`)
}

function running(child: ChildProcess, port: number, log: (line: string) => void): Postmaster {
  let stopping: Promise<void> | undefined
  const died = Promise.withResolvers<string>()
  child.once('exit', (code, signal) => {
    if (stopping !== undefined) return
    const how = signal ?? `code ${code}`
    log(`PostgreSQL ended by itself (${how})`)
    died.resolve(how)
  })
  return {
    port,
    died: died.promise,
    stop: () => {
      stopping ??= endChild(child)
      return stopping
    },
  }
}

/** Returns the child process when the server is ready, or its output if it ended before. */
async function launch(options: PostmasterOptions, port: number): Promise<ChildProcess | string> {
  const { bin, cluster, folder, user } = options
  const { O_RDWR, O_APPEND, O_CREAT } = constants
  const output = await openFor(logPath(folder), O_RDWR | O_APPEND | O_CREAT)
  try {
    const { size } = await output.stat()
    const child = spawn(join(bin, 'postgres'), serverArguments(options, port), {
      ...spawnAs(user),
      // A process group of its own: Ctrl-C must reach only the service, which finishes its work
      // before it stops the server.
      detached: true,
      stdio: ['ignore', output.fd, output.fd],
    })
    stopWithUs(child)
    await once(child, 'spawn')
    if (await isReady(child, cluster, output)) return child
    return await tail(output, size)
  } finally {
    await output.close()
  }
}

/** The required settings come last, so that they override the others. */
function serverArguments({ cluster, settings }: PostmasterOptions, port: number): string[] {
  const all = Object.entries({
    ...DEFAULTS,
    ...settings,
    port: String(port),
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
  }).map(([name, value]) => `${name}=${value}`)
  return ['-D', cluster, ...[...all, ownerSetting()].flatMap((setting) => ['-c', setting])]
}

/**
 * Stops the server when the service exits, except by SIGKILL, after which stopOrphan finds the server. The
 * child does not keep the service running.
 */
function stopWithUs(child: ChildProcess): void {
  const stop = () => child.kill('SIGINT')
  process.once('exit', stop)
  child.once('exit', () => process.off('exit', stop))
  child.unref()
}

/** Waits until the server is ready; false if it ended. Crash recovery may take minutes, but logs its progress. */
async function isReady(child: ChildProcess, cluster: string, output: FileHandle): Promise<boolean> {
  let { size } = await output.stat()
  let deadline = performance.now() + SILENCE_MAX_MS
  while (!hasEnded(child)) {
    if (reportsReady(child, cluster)) return true
    const now = performance.now()
    const grown = (await output.stat()).size
    if (grown > size) deadline = now + SILENCE_MAX_MS
    size = grown
    if (now > deadline) {
      await endChild(child)
      throw new Error(`PostgreSQL was silent for ${SILENCE_MAX_MS / 1000} s and not ready`)
    }
    await delay(POLL_MS)
  }
  return false
}

/** Reads the lock file: its first line is the process id of the postmaster, and its eighth line the state. */
function reportsReady(child: ChildProcess, cluster: string): boolean {
  try {
    const lines = readFileSync(join(cluster, 'postmaster.pid'), 'utf8').split('\n')
    return Number(lines[0]) === child.pid && lines[7]?.trim() === 'ready'
  } catch {
    return false
  }
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null
}

function endChild(child: ChildProcess): Promise<void> {
  const send = (signal: NodeJS.Signals) => void child.kill(signal)
  return endPostmaster(child.pid ?? 0, send, () => hasEnded(child))
}

function logPath(folder: string): string {
  return `${folder}.log`
}

/** Rotates the log and keeps one old file. A running server has the file open, so this runs before a start. */
async function boundLog(path: string): Promise<void> {
  const found = await stat(path).catch(() => undefined)
  if (found !== undefined && found.size > LOG_MAX_BYTES) await rename(path, `${path}.1`)
}

/** The last lines from `start` on. */
async function tail(output: FileHandle, start: number): Promise<string> {
  const { size } = await output.stat()
  const position = Math.max(start, size - LOG_TAIL_BYTES)
  const { buffer, bytesRead } = await output.read(Buffer.alloc(LOG_TAIL_BYTES), { position })
  return buffer.toString('utf8', 0, bytesRead).trim()
}
