import { execFileSync } from 'node:child_process'
import { readFileSync, readlinkSync } from 'node:fs'
import { setTimeout as delay } from 'node:timers/promises'

/** Identifies a process. The id is not enough: the system reuses the ids of dead processes. */
export interface ProcessIdentity {
  readonly pid: number
  /** When it started: ticks since boot on Linux, elsewhere milliseconds. */
  readonly startedAt: number
}

/** The live process with that id; undefined if there is none, or only a zombie. */
export function liveProcess(pid: number): ProcessIdentity | undefined {
  const startedAt = process.platform === 'linux' ? linuxStart(pid) : psStart(pid)
  return startedAt === undefined ? undefined : { pid, startedAt }
}

export function isLive({ pid, startedAt }: ProcessIdentity): boolean {
  return liveProcess(pid)?.startedAt === startedAt
}

/** The command line, separated by single spaces; undefined if it cannot be read. */
export function commandLine(pid: number): string | undefined {
  if (process.platform !== 'linux') return ps(pid, 'command=')
  return attempt(() => readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' '))
}

/** The working folder; undefined if it cannot be read. */
export function workingFolder(pid: number): string | undefined {
  return attempt(() => readlinkSync(`/proc/${pid}/cwd`))
}

/** Polls a cheap condition; false if it did not become true in time. */
export async function becomesTrue(condition: () => boolean, timeoutMs: number): Promise<boolean> {
  const deadline = performance.now() + timeoutMs
  while (!condition()) {
    if (performance.now() > deadline) return false
    await delay(POLL_MS)
  }
  return true
}

const POLL_MS = 10

/** Fields after the program's name, which is in parentheses and may hold anything; see proc(5). */
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
