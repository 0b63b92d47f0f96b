import { execFileSync } from 'node:child_process'

/** A process of this machine. */
export interface Process {
  readonly pid: number
  readonly parent: number
  readonly command: string
}

/** All that run, without those that have ended and that their parent has not asked after yet. */
export function listProcesses(): Process[] {
  const text = execFileSync('ps', ['-A', '-ww', '-o', 'pid=,ppid=,stat=,args='], {
    encoding: 'utf8',
    maxBuffer: 64 * 1_048_576,
  })
  return text.split('\n').flatMap((line) => {
    const [, pid, parent, state, command] = /^\s*(\d+)\s+(\d+)\s+(\S+)\s+(.*)$/.exec(line) ?? []
    return state === undefined || state.startsWith('Z') || /^ps -A /.test(command!)
      ? []
      : [{ pid: Number(pid), parent: Number(parent), command: command!.slice(0, 200) }]
  })
}

/** Those that a process has started, and those that these have. */
export function descendantsOf(pid: number, all = listProcesses()): Process[] {
  const children = all.filter(({ parent }) => parent === pid)
  return children.flatMap((child) => [child, ...descendantsOf(child.pid, all)])
}

/** Ends them as a crash does. @returns a line of each, for who has to be told */
export function killAll(processes: readonly Process[]): string {
  for (const { pid } of processes) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // It has ended meanwhile.
    }
  }
  return processes.map(({ pid, command }) => `${pid} ${command}`).join('\n')
}
