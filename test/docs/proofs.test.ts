import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, matchesGlob } from 'node:path'
import { describe, expect, test } from 'vitest'
import { FAULT_FILES } from '../faults/vitest.config.ts'
import { SLOW_FILES } from '../vitest.config.ts'

const ROOT = join(import.meta.dirname, '../..')
const FOLDER = 'src/docs'
const PAGES = ['security.md', 'reliability.md'] as const

/** A test that a page names: `[outer › inner](../../test/…)`, with … for what the title takes from a variable. */
interface Proof {
  readonly path: string
  readonly titles: readonly string[]
}

const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')

const { scripts } = JSON.parse(read('package.json')) as { scripts: Record<string, string> }

function proofsOf(page: string): Proof[] {
  const links = read(`${FOLDER}/${page}`).matchAll(/\[([^\]]+)\]\(\.\.\/\.\.\/(test\/[^)#]+)\)/g)
  return [...links].map(([, text = '', path = '']) => ({ path, titles: text.split(' › ') }))
}

/** The texts between quotes in a file, as they are without escapes, with … for each `${…}`. */
function quotedIn(path: string): string {
  return read(path)
    .replaceAll(/\$\{[^}]*\}/g, '…')
    .replaceAll(/\\(['"`])/g, '$1')
}

const isQuoted = (file: string, text: string) =>
  ["'", '"', '`'].some((quote) => file.includes(quote + text + quote))

/** The commands on a page: `npm run <script> -- <file>`, with the variables before it. */
function commandsOf(page: string) {
  const found = read(`${FOLDER}/${page}`).matchAll(
    /((?:[A-Z_]+=\S+ )*)npm (?:run )?(test(?::\w+)?|\w+)(?: -- ([^\s`|]+))?/g,
  )
  return [...found].map(([command, variables = '', script = '', file]) => ({
    command,
    script,
    file,
    variables: [...variables.matchAll(/([A-Z_]+)=/g)].map(([, name = '']) => name),
  }))
}

const TEST_FILES = readdirSync(join(ROOT, 'test'), { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.test.ts'))
  .map((name) => `test/${name}`)

/** The files that a script runs. */
const RUN_BY: Readonly<Record<string, readonly string[]>> = {
  test: TEST_FILES.filter((path) => !path.startsWith('test/faults/') && !SLOW_FILES.includes(path)),
  'test:faults': TEST_FILES.filter((path) =>
    FAULT_FILES.some((pattern) => matchesGlob(path, pattern)),
  ),
}

describe.each(PAGES)('%s', (page) => {
  test('names tests that exist, by their titles', () => {
    const proofs = proofsOf(page)
    expect(proofs.length).toBeGreaterThan(20)
    const wrong = proofs.flatMap(({ path, titles }) => {
      if (!existsSync(join(ROOT, path))) return [path]
      if (!path.endsWith('.test.ts')) return []
      const file = quotedIn(path)
      return titles.filter((title) => !isQuoted(file, title)).map((title) => `${path}: ${title}`)
    })
    expect(wrong).toEqual([])
  })

  test('names commands that exist, with variables that their tests read', () => {
    const wrong = commandsOf(page).flatMap(({ command, script, file, variables }) => {
      if (!['ci', 'audit', 'sbom', ...Object.keys(scripts)].includes(script)) return [command]
      const files = RUN_BY[script]?.filter((path) => path.includes(file ?? ''))
      if (files === undefined) return []
      // A model imports some under their own names, and every run reads its seed.
      const unread = variables.filter(
        (name) => name !== 'SEED' && !files.some((path) => read(path).includes(name)),
      )
      return files.length === 0 || unread.length > 0 ? [command] : []
    })
    expect(wrong).toEqual([])
  })
})

test('the page of faults names every file of tests that injects them', () => {
  const named = new Set(proofsOf('reliability.md').map(({ path }) => path))
  const faults = TEST_FILES.filter((path) => path.startsWith('test/faults/'))
  expect(faults.length).toBeGreaterThan(25)
  expect(faults.filter((path) => !named.has(path))).toEqual([])
})
