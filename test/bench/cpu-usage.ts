import { readdirSync, readFileSync } from 'node:fs'
import { cpus } from 'node:os'

/** Linux counts in hundredths of a second, whatever its own tick is. */
const TICKS_A_SECOND = 100

/**
 * Starts to track the CPU usage of processes and their children.
 *
 * @param pids process ids by name
 * @returns a function that returns how many cores each process has used since, and as `other cores`
 * what the rest of the machine used: figures taken beside a busy neighbour mean little. The result is
 * empty where there is no /proc
 */
export function trackCpuUsage(
  pids: Readonly<Record<string, number>>,
): () => Record<string, number> {
  const started = performance.now()
  const busyBefore = busySeconds()
  const before = new Map(Object.entries(pids).map(([name, pid]) => [name, cpuSeconds(pid)]))
  return () => {
    const seconds = (performance.now() - started) / 1000
    const used: Record<string, number> = {}
    let other = (busySeconds() - busyBefore) / seconds
    for (const [name, pid] of Object.entries(pids)) {
      const now = cpuSeconds(pid)
      const then = before.get(name)
      if (now === undefined || then === undefined) return {}
      used[`${name} cores`] = (now - then) / seconds
      other -= (now - then) / seconds
    }
    return { ...used, 'other cores': Math.max(0, other) }
  }
}

/** CPU time of the whole machine. */
function busySeconds(): number {
  return cpus().reduce((sum, { times }) => sum + times.user + times.nice + times.sys, 0) / 1000
}

/** CPU time of a process, its living children and those that it has waited for. */
function cpuSeconds(pid: number): number | undefined {
  const own = readStat(pid)
  if (own === undefined) return undefined
  let ticks = own.own + own.ended
  for (const name of readdirSync('/proc')) {
    const child = /^\d+$/.test(name) ? readStat(Number(name)) : undefined
    if (child?.parent === pid) ticks += child.own + child.ended
  }
  return ticks / TICKS_A_SECOND
}

/** The parent of a process, such as the postmaster of a backend. */
export function parentOf(pid: number): number | undefined {
  return readStat(pid)?.parent
}

/** See proc(5): the fields after the command, which is in parentheses and may hold anything. */
function readStat(pid: number) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
    const at = (index: number) => Number(fields[index])
    return { parent: at(1), own: at(11) + at(12), ended: at(13) + at(14) }
  } catch {
    return undefined
  }
}
