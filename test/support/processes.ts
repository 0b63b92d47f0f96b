import { execFileSync } from 'node:child_process'
import { readlinkSync } from 'node:fs'

/** A process of this machine. */
export interface Process {
  readonly pid: number
  readonly parent: number
  readonly command: string
}

/** All running processes, without zombies. */
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

/** The descendants of a process. */
export function descendantsOf(pid: number, all = listProcesses()): Process[] {
  const children = all.filter(({ parent }) => parent === pid)
  return children.flatMap((child) => [child, ...descendantsOf(child.pid, all)])
}

/**
 * Processes that name one of the paths, or a file below it, in their command, without the keepers of other runs, which
 * outlive their runs to clean up after them.
 */
export function processesOf(...paths: readonly string[]): Process[] {
  return listProcesses().filter(({ command }) => isNamed(command, paths))
}

/** Processes that name a folder or work in it: the backends of a PostgreSQL do not name theirs. */
export function processesIn(folder: string): Process[] {
  return listProcesses().filter((each) => isIn(folder, each))
}

/** The processes of a run that have outlived their parent: processes of the project, or in the folder of the run. */
export function orphansOf(root: string, folder: string): Process[] {
  return listProcesses().filter(
    (each) => each.parent === 1 && (isNamed(each.command, [root]) || isIn(folder, each)),
  )
}

const isIn = (folder: string, { pid, command }: Process) =>
  isNamed(command, [folder]) || isNamed(workingFolder(pid), [folder])

function isNamed(command: string, paths: readonly string[]): boolean {
  const names = paths.map((path) => new RegExp(`${RegExp.escape(path)}(?![^\\s/])`))
  return names.some((name) => name.test(command)) && !/keeper\.ts /.test(command)
}

/** Empty if it is another user's, or on another system than Linux. */
function workingFolder(pid: number): string {
  try {
    return readlinkSync(`/proc/${pid}/cwd`)
  } catch {
    return ''
  }
}

/** Kills processes. @returns one line about each, for an error message */
export function killAll(processes: readonly Process[]): string {
  for (const { pid } of processes) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // It has already ended.
    }
  }
  return processes.map(({ pid, command }) => `${pid} ${command}`).join('\n')
}
