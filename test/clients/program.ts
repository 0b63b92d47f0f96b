import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { onTestFinished } from 'vitest'

/** A program of another language. */
export interface Program {
  readonly child: ChildProcess
  /** What it printed so far. */
  stdout(): string
  stderr(): string
  /** Resolves when it has ended, to its exit code. */
  readonly exited: Promise<number | null>
}

/** Starts a program, with nothing in its environment but what is given. It is killed with the test. */
export function startProgram(
  [program, ...args]: readonly string[],
  env: Readonly<Record<string, string>>,
): Program {
  const child = spawn(program!, args, {
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (text) => {
    stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text) => {
    stderr += text
  })
  const exited = once(child, 'close').then(([code]) => code as number | null)
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await exited
  })
  return { child, stdout: () => stdout, stderr: () => stderr, exited }
}

/** Runs a program to its end. */
export async function runProgram(
  command: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const program = startProgram(command, env)
  const code = await program.exited
  return { code, stdout: program.stdout(), stderr: program.stderr() }
}
