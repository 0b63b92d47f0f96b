import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { onTestFinished } from 'vitest'
import { waitUntil } from './wait-for.ts'

/** A program that a test started. */
export interface Program {
  readonly child: ChildProcess
  /** What it printed so far. */
  stdout(): string
  stderr(): string
  /** Resolves when it has ended and its output has arrived, to its exit code or the signal. */
  readonly exited: Promise<number | NodeJS.Signals>
}

/** Standard input is closed, unless it is to be written. */
interface ProgramOptions extends Pick<SpawnOptions, 'cwd' | 'detached'> {
  readonly stdin?: 'ignore' | 'pipe'
}

/** Starts a program, with nothing in its environment but what is given. It is killed with the test. */
export function startProgram(
  [program, ...args]: readonly string[],
  env: NodeJS.ProcessEnv,
  { stdin = 'ignore', ...options }: ProgramOptions = {},
): Program {
  const child = spawn(program!, args, {
    ...options,
    env: { PATH: process.env['PATH'], ...env },
    stdio: [stdin, 'pipe', 'pipe'],
  })
  let stdout = ''
  let stderr = ''
  child.stdout!.setEncoding('utf8').on('data', (text) => {
    stdout += text
  })
  child.stderr!.setEncoding('utf8').on('data', (text) => {
    stderr += text
  })
  const exited = once(child, 'close').then(([code, signal]) => code ?? signal)
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await exited
  })
  return { child, stdout: () => stdout, stderr: () => stderr, exited }
}

/** Starts a program, and waits until it serves a URL. */
export async function startServer(
  command: readonly string[],
  env: NodeJS.ProcessEnv,
  url: string,
): Promise<Program> {
  const program = startProgram(command, env)
  await waitUntil(async () => {
    if (program.child.exitCode !== null) throw new Error(`it ended: ${program.stderr()}`)
    return await fetch(url).then(
      () => true,
      () => false,
    )
  })
  return program
}

/** Runs a program to its end. */
export async function runProgram(
  command: readonly string[],
  env: NodeJS.ProcessEnv,
  options?: ProgramOptions,
) {
  const { exited, stdout, stderr } = startProgram(command, env, options)
  const code = await exited
  return { code, stdout: stdout(), stderr: stderr() }
}
