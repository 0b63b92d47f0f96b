import { globSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { generator } from '../support/random.ts'
import type { Mutation } from './mutation.ts'
import { MUTATIONS } from './mutations.ts'
import { RULES } from './rules/rules.ts'
import { runRules } from './rules/run-rules.ts'
import { copyTree, ROOT, type TestRun, type Tree } from './tree.ts'

const USAGE = `npm run test:mutations -- [--share 0.1] [--seed 7] [--name TEXT]… [--jobs 2] [--check | --skip-first-run]
npm run test:mutations -- --rules [--name TEXT]… [--jobs 2]

Breaks one rule after the other in a copy of the project, and runs the tests that must notice: first the conditions
in SQL of the table, then, in every way that Stryker knows, the rules that need no database.
  --share   only this share of the mutations, chosen by the seed
  --name    only mutations whose name or file contains the text
  --jobs    how many copies run at a time
  --check   runs no test: only checks that each mutation can be applied, and that the rules' files exist
  --skip-first-run   does not run the tests without a mutation first
  --rules   only the rules that need no database; --name: of a folder or file`

interface Result {
  readonly mutation: Mutation
  readonly isKilled: boolean
}

/** @returns the exit code: 1 if a mutation survives, or cannot be applied */
async function main(): Promise<number> {
  const options = readOptions()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))
  if (options.rules) return runRules(options.name, options.jobs)
  const selected = select(options)
  const faults = (await Promise.all(selected.map(faultOf))).filter((fault) => fault !== undefined)
  faults.push(...missingRules())
  for (const fault of faults) console.log(fault)
  console.log(`${selected.length} of ${MUTATIONS.length} mutations, seed ${options.seed}`)
  if (faults.length > 0 || options.check) return faults.length > 0 ? 1 : 0
  const trees: Tree[] = []
  process.once('exit', () => {
    for (const tree of trees) tree.remove()
  })
  for (let job = 0; job < options.jobs; job++) trees.push(await copyTree())
  const tests = [...new Set(selected.flatMap((mutation) => mutation.tests))]
  const unbroken: TestRun = options['skip-first-run']
    ? { kind: 'passed' }
    : await runUntilKilled(trees[0] as Tree, tests)
  if (unbroken.kind !== 'passed') {
    console.log('the tests fail without any mutation:', unbroken)
    return 1
  }
  const queue = [...selected]
  const results: Result[] = []
  const work = async (tree: Tree): Promise<void> => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      results.push(await apply(tree, next))
    }
  }
  await Promise.all(trees.map(work))
  const code = report(results)
  return (await runRules(options.name, options.jobs)) || code
}

/** Files and tests of the rules that do not exist: Stryker would pass over them. */
function missingRules(): string[] {
  return RULES.flatMap(({ folder, files, tests }) => [
    ...files.map((file) => join('src', folder, file)),
    ...tests.map((file) => join('test', folder, file)),
  ])
    .filter((path) => globSync(path, { cwd: ROOT }).length === 0)
    .map((path) => `error     the rules name ${path}, which does not exist`)
}

function readOptions() {
  const { values } = parseArgs({
    options: {
      share: { type: 'string', default: '1' },
      seed: { type: 'string', default: `${Date.now() % 1_000_000}` },
      name: { type: 'string', multiple: true, default: [] },
      jobs: { type: 'string', default: '2' },
      check: { type: 'boolean', default: false },
      'skip-first-run': { type: 'boolean', default: false },
      rules: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  })
  const [share, seed, jobs] = [Number(values.share), Number(values.seed), Number(values.jobs)]
  if (
    values.help ||
    !(share > 0 && share <= 1) ||
    !Number.isInteger(seed) ||
    !(jobs >= 1 && jobs <= 8)
  ) {
    console.log(USAGE)
    process.exit(values.help ? 0 : 2)
  }
  return { ...values, share, seed, jobs }
}

/** The mutations by name and then by share, shuffled by the seed so that any share is spread. */
function select({ name, share, seed }: ReturnType<typeof readOptions>): readonly Mutation[] {
  const random = generator(seed)
  const named = MUTATIONS.filter(
    (mutation) =>
      name.length === 0 ||
      name.some((text) => mutation.name.includes(text) || mutation.file.includes(text)),
  )
  const shuffled = named
    .map((mutation) => ({ mutation, at: random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ mutation }) => mutation)
  return shuffled.slice(0, Math.ceil(shuffled.length * share))
}

/** Why a mutation cannot be applied; undefined if it can. */
async function faultOf({ name, file, find, replace }: Mutation): Promise<string | undefined> {
  const text = await readFile(join(ROOT, file), 'utf8').catch(() => '')
  const count = text.split(find).length - 1
  if (count !== 1) return `error     ${name}: its text occurs ${count} times in ${file}`
  if (find === replace) return `error     ${name}: it changes nothing`
  const isTwice = MUTATIONS.filter((other) => other.name === name).length > 1
  return isTwice ? `error     ${name}: another mutation has this name` : undefined
}

async function apply(tree: Tree, mutation: Mutation): Promise<Result> {
  const startedMs = performance.now()
  const text = await readFile(join(ROOT, mutation.file), 'utf8')
  const restore = await tree.change(mutation.file, text.split(mutation.find).join(mutation.replace))
  const run = await runUntilKilled(tree, mutation.tests)
  await restore()
  const seconds = ((performance.now() - startedMs) / 1_000).toFixed(0)
  const isKilled = run.kind === 'failed'
  const verdict = isKilled ? 'killed' : run.kind === 'broken' ? 'broken' : 'survived'
  const { file, name } = mutation
  console.log(`${verdict.padEnd(9)} ${file}: ${name} (${seconds} s)`)
  if (run.kind === 'failed') console.log(`          by: ${run.title}`)
  return { mutation, isKilled }
}

/** Runs one folder or file of tests after the other: the first one usually notices. */
async function runUntilKilled(tree: Tree, tests: readonly string[]): Promise<TestRun> {
  for (const test of tests) {
    const run = await tree.run([test])
    if (run.kind !== 'passed') return run
  }
  return { kind: 'passed' }
}

/** Prints the killed by the folder of their tests. @returns the exit code */
function report(results: readonly Result[]): number {
  const folderOf = ({ mutation }: Result) => mutation.tests[0]?.split('/')[1] as string
  console.log()
  for (const [folder, own] of [...Map.groupBy(results, folderOf)].sort()) {
    const killed = own.filter(({ isKilled }) => isKilled).length
    const percent = Math.round((killed * 100) / own.length)
    console.log(`${folder.padEnd(16)} ${killed} of ${own.length} killed (${percent} %)`)
  }
  const survivors = results.filter(({ isKilled }) => !isKilled)
  for (const { mutation } of survivors) console.log(`survivor: ${mutation.file}: ${mutation.name}`)
  return survivors.length > 0 ? 1 : 0
}

process.exitCode = await main()
