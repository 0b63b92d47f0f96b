import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { expect, onTestFinished, vi } from 'vitest'
import { runCommandLine, SERVICE_NOUNS } from '../../src/cli/command-line.ts'
import { MACHINE_NOUNS } from '../../src/cli/service/nouns.ts'
import { ADMIN_TOKEN } from '../support/admin-token.ts'
import { temporaryFolder } from '../support/folder.ts'

/** The commands of a checkout. */
export const NOUNS = [...MACHINE_NOUNS, ...SERVICE_NOUNS]

export const ENTRY = join(import.meta.dirname, '../../src/cli/inflow.ts')

interface RunOptions {
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
  /** Standard input; empty unless given. */
  readonly input?: string
}

interface Outcome {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

/** A running command. */
export interface Running {
  readonly child: ChildProcess
  /** The next line of standard output; undefined at its end. */
  nextLine(): Promise<string | undefined>
  /** What was written to standard error so far. */
  stderr(): string
  exit(): Promise<number | null>
}

/** Starts the command, with nothing in its environment but what is given. */
export function startInflow(args: readonly string[], options: RunOptions = {}): Running {
  const env = {
    PATH: process.env['PATH'] ?? '',
    HOME: tmpdir(),
    TZ: 'UTC',
    ...options.env,
  }
  const cwd = options.cwd ?? temporaryFolder()
  const child = spawn(process.execPath, [ENTRY, ...args], {
    cwd,
    env,
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  child.stdin.end(options.input ?? '')
  onTestFinished(() => {
    child.kill('SIGKILL')
  })
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (text) => {
    stderr += text
  })
  const closed = once(child, 'close')
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return {
    child,
    nextLine: async () => (await lines.next()).value,
    stderr: () => stderr,
    exit: async () => (await closed)[0] as number | null,
  }
}

/** Runs the command in a process of its own, to its end. */
export const inflow = (args: readonly string[], options: RunOptions = {}): Promise<Outcome> =>
  outcomeOf(startInflow(args, options))

/** Waits for the end of a command whose output was not read. */
export async function outcomeOf(running: Running): Promise<Outcome> {
  let stdout = ''
  for (let line = await running.nextLine(); line !== undefined; line = await running.nextLine()) {
    stdout += `${line}\n`
  }
  return { code: await running.exit(), stdout, stderr: running.stderr() }
}

/** Runs the command in this process: for what needs neither a terminal nor signals. */
export async function runHere(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Outcome> {
  const written = { stdout: '', stderr: '' }
  const spies = (['stdout', 'stderr'] as const).map((name) =>
    vi.spyOn(process[name], 'write').mockImplementation((text) => {
      // A warning of Node is about the whole process of the tests.
      if (!/^\(node:\d+\) (?!Inflow)/.test(`${text}`)) written[name] += text
      return true
    }),
  )
  const bare = {
    TZ: 'UTC',
    NO_COLOR: '1',
    FORCE_COLOR: undefined,
    INFLOW_GRPC_URL: undefined,
    INFLOW_TOKEN: undefined,
    INFLOW_TOKEN_FILE: undefined,
  }
  for (const [name, value] of Object.entries({ ...bare, ...env })) vi.stubEnv(name, value)
  try {
    return { code: await runCommandLine(args, NOUNS), ...written }
  } finally {
    for (const spy of spies) spy.mockRestore()
    vi.unstubAllEnvs()
  }
}

/** What a command needs to call a service: its URL and a token. */
export const callerEnv = ({ grpcUrl }: { readonly grpcUrl: string }, token = ADMIN_TOKEN) => ({
  INFLOW_GRPC_URL: grpcUrl,
  INFLOW_TOKEN: token,
})

/** Verifies the ledger and the audit log of a running service. */
export async function verifyBooks(service: { readonly grpcUrl: string }): Promise<void> {
  for (const noun of ['ledger', 'audit']) {
    const { code, stderr } = await runHere([noun, 'verify'], callerEnv(service))
    expect([noun, code, stderr]).toEqual([noun, 0, expect.any(String)])
  }
}
