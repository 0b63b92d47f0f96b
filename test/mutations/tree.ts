import { spawn } from 'node:child_process'
import { rmSync } from 'node:fs'
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { SLOW_FILES } from '../vitest.config.ts'

export const ROOT = join(import.meta.dirname, '../..')

/** What the tests read of the project. */
const COPIED = ['gen', 'proto', 'src', 'test', '.mikro-orm.config.ts', 'CHANGELOG.md', 'README.md']
const CONFIGS = ['package.json', 'tsconfig.json', 'buf.yaml', 'buf.gen.yaml']

/** A run of a folder that takes longer has been made endless by its mutation. */
const RUN_MAX_MS = 900_000
const KILL_MS = 15_000

const Report = z.object({
  success: z.boolean(),
  testResults: z.array(
    z.object({
      status: z.string(),
      message: z.string().optional(),
      assertionResults: z.array(z.object({ status: z.string(), fullName: z.string() })),
    }),
  ),
})

/** The result of running test files: the title of the first test that failed, if any did. */
export type TestRun =
  | { readonly kind: 'passed' }
  | { readonly kind: 'failed'; readonly title: string }
  /** No test ran: the tree does not even start. */
  | { readonly kind: 'broken' }

/** A copy of the project, in which files are changed and tests run. */
export interface Tree {
  readonly folder: string
  /** Writes a file. @returns a function that restores it */
  change(file: string, text: string): Promise<() => Promise<void>>
  run(tests: readonly string[]): Promise<TestRun>
  /** Ends the tests that run, and removes the copy. Synchronous, so that a signal can do it. */
  remove(): void
}

export async function copyTree(): Promise<Tree> {
  const folder = await mkdtemp(join(tmpdir(), 'inflow-mutation-'))
  for (const name of [...COPIED, ...CONFIGS]) {
    await cp(join(ROOT, name), join(folder, name), { recursive: true, verbatimSymlinks: true })
  }
  await symlink(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  const report = join(folder, 'report.json')
  let end = () => {}
  return {
    folder,
    async change(file, text) {
      const before = await readFile(join(folder, file), 'utf8')
      await writeFile(join(folder, file), text)
      return () => writeFile(join(folder, file), before)
    },
    async run(tests) {
      await rm(report, { force: true })
      const running = startTests(folder, report, tests)
      end = running.end
      if ((await running.ended) === 'too long') return { kind: 'failed', title: 'ran too long' }
      const text = await readFile(report, 'utf8').catch(() => undefined)
      return text === undefined ? { kind: 'broken' } : readReport(text)
    },
    remove() {
      end()
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}

/** Runs test files in a process group of their own, so that all of it can be ended. */
function startTests(folder: string, report: string, tests: readonly string[]) {
  const vitest = join(
    dirname(fileURLToPath(import.meta.resolve('vitest/package.json'))),
    'vitest.mjs',
  )
  const isSlow = tests.some((test) => SLOW_FILES.includes(test) || test.startsWith('test/faults/'))
  const config = `test/${isSlow ? 'faults/' : ''}vitest.config.ts`
  const options = ['--config', config, '--bail', '1']
  const reporting = ['--reporter', 'json', '--outputFile', report]
  const child = spawn(process.execPath, [vitest, 'run', ...options, ...reporting, ...tests], {
    cwd: folder,
    detached: true,
    stdio: 'ignore',
    // What the model notices at random it notices within a minute.
    env: { MODEL_SECONDS: '60', ...process.env },
  })
  const end = (signal: NodeJS.Signals = 'SIGTERM') => {
    if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
    process.kill(-child.pid, signal)
  }
  const ended = new Promise<'ended' | 'too long'>((resolve, reject) => {
    let result: 'ended' | 'too long' = 'ended'
    const timeout = setTimeout(() => {
      result = 'too long'
      end()
      setTimeout(() => end('SIGKILL'), KILL_MS).unref()
    }, RUN_MAX_MS)
    child.on('error', reject)
    child.on('exit', () => {
      clearTimeout(timeout)
      resolve(result)
    })
  })
  return { ended, end }
}

function readReport(text: string): TestRun {
  const { success, testResults } = Report.parse(JSON.parse(text))
  if (success) return { kind: 'passed' }
  const failed = testResults.filter(({ status }) => status === 'failed')
  const [first] = failed.flatMap(({ assertionResults }) =>
    assertionResults.filter(({ status }) => status === 'failed'),
  )
  if (first !== undefined) return { kind: 'failed', title: first.fullName }
  const message = failed[0]?.message?.split('\n', 1)[0]
  return message === undefined ? { kind: 'broken' } : { kind: 'failed', title: message }
}
