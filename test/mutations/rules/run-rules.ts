import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Stryker } from '@stryker-mutator/core'
import { copyTree } from '../tree.ts'
import { EXPLAINED } from './explained.ts'
import { RULES, type Rules } from './rules.ts'

type LogLevel = NonNullable<ConstructorParameters<typeof Stryker>[0]['logLevel']>

/** A mutation that Stryker made, as the line that it changes, before and after. */
interface Mutant {
  readonly file: string
  readonly before: string
  readonly after: string
  readonly isKilled: boolean
}

/** A test that takes this much longer with a mutation has been made endless by it. */
const TIMEOUT_MS = 10_000

/**
 * Stryker breaks the rules of each folder in every way it knows, and the tests of the same folder must notice.
 *
 * @param names only folders and files whose name contains one of these; empty: all
 * @returns the exit code: 1 if a mutation survives that is not explained
 */
export async function runRules(names: readonly string[], jobs: number): Promise<number> {
  const tree = await copyTree()
  process.once('exit', () => tree.remove())
  process.chdir(tree.folder)
  let unexplained = 0
  for (const rules of RULES) {
    const startedMs = performance.now()
    const files = rules.files.filter((file) => isNamed(names, `${rules.folder}/${file}`))
    if (files.length === 0) continue
    const mutants = await mutate({ ...rules, files }, jobs)
    const seconds = ((performance.now() - startedMs) / 1_000).toFixed(0)
    unexplained += report(rules.folder, mutants, seconds)
  }
  return unexplained > 0 ? 1 : 0
}

const isNamed = (names: readonly string[], path: string) =>
  names.length === 0 || names.some((name) => path.includes(name))

/** Runs Stryker in the current folder, a copy of the project whose files it changes in place. */
async function mutate({ folder, files, tests }: Rules, jobs: number): Promise<Mutant[]> {
  const results = await new Stryker({
    mutate: files.map((file) => join('src', folder, file)),
    testFiles: tests.map((file) => join('test', folder, file)),
    inPlace: true,
    testRunner: 'vitest',
    plugins: ['@stryker-mutator/vitest-runner'],
    vitest: { configFile: 'test/mutations/rules/vitest.config.ts', related: false },
    coverageAnalysis: 'perTest',
    // What a file computes as it is loaded is not computed again for each mutation.
    ignoreStatic: true,
    // The tests need not repeat texts.
    mutator: { excludedMutations: ['StringLiteral'] },
    disableTypeChecks: false,
    // TypeScript 7 lacks the API that reads it, so it must not exist.
    tsconfigFile: 'none.json',
    concurrency: jobs,
    timeoutMS: TIMEOUT_MS,
    reporters: [],
    logLevel: 'error' as LogLevel,
  }).runMutationTest()
  return Promise.all(
    results
      .filter(({ status }) => COUNTED.includes(status))
      .map(async ({ fileName, location, replacement, status }) => ({
        file: fileName.slice(fileName.indexOf('src/')),
        ...changedLine(await readFile(fileName, 'utf8'), location, replacement),
        isKilled: KILLED.includes(status),
      })),
  )
}

const KILLED: readonly string[] = ['Killed', 'Timeout']

/** Without those that are static, or make the file fail to load. */
const COUNTED: readonly string[] = [...KILLED, 'Survived', 'NoCoverage']

interface Place {
  readonly line: number
  readonly column: number
}

/** The first line that a mutation changes, before and after. Lines and columns count from 1. */
function changedLine(text: string, { start, end }: { start: Place; end: Place }, replaced: string) {
  const lines = text.split('\n')
  const [first = '', last = ''] = [lines[start.line - 1], lines[end.line - 1]]
  const after = `${first.slice(0, start.column - 1)}${replaced}${last.slice(end.column - 1)}`
  return { before: first.trim(), after: after.trim().split('\n', 1)[0] as string }
}

/** Prints what became of the mutations of a folder. @returns how many survivors are not explained */
function report(folder: string, mutants: readonly Mutant[], seconds: string): number {
  const survivors = mutants.filter(({ isKilled }) => !isKilled)
  const unexplained = survivors.filter((mutant) => !isExplained(mutant))
  const explained = survivors.length - unexplained.length
  const killed = mutants.length - survivors.length
  const counted = mutants.length - explained
  const percent = counted === 0 ? 100 : ((killed * 100) / counted).toFixed(1)
  console.log(
    `${folder.padEnd(16)} ${killed} of ${counted} killed (${percent} %), ${explained} explained (${seconds} s)`,
  )
  for (const { file, before, after } of unexplained) {
    console.log(`survivor: ${file}\n  - ${before}\n  + ${after}`)
  }
  const stale = staleExplanations(mutants)
  for (const { file, before } of stale) console.log(`nothing to explain: ${file}\n  - ${before}`)
  return unexplained.length + stale.length
}

const explanations = EXPLAINED.flatMap(({ file, mutations }) =>
  mutations.map(([before, after]) => ({ file, before, after })),
)

type Change = Pick<Mutant, 'file' | 'before' | 'after'>

const isSame = (a: Change, b: Change): boolean =>
  a.file === b.file && a.before === b.before && a.after === b.after

function isExplained(mutant: Mutant): boolean {
  return explanations.some((each) => isSame(each, mutant))
}

/** The explanations of mutations that do not exist (any more), in the files that were broken. */
function staleExplanations(mutants: readonly Mutant[]): readonly Change[] {
  const files = new Set(mutants.map(({ file }) => file))
  return explanations.filter(
    (each) => files.has(each.file) && !mutants.some((mutant) => isSame(each, mutant)),
  )
}
