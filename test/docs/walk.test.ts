import { existsSync, globSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { expect, test } from 'vitest'

const ROOT = join(import.meta.dirname, '../..')
const walk = readFileSync(join(ROOT, 'src/README.md'), 'utf8')
const sources = globSync('src/**/*.{ts,tsx}', { cwd: ROOT })
const names = new Set(sources.map((path) => basename(path)))

const isThere = (name: string) =>
  name.includes('/')
    ? existsSync(join(ROOT, 'src', name)) || existsSync(join(ROOT, name))
    : names.has(name)

/** The texts in code style. */
const codeIn = (text: string) => [...text.matchAll(/`([^`\s]+)`/g)].map(([, code = '']) => code)

test('the guided walk names files that exist', () => {
  const files = codeIn(walk).filter((code) => /^[\w./-]+\.tsx?$/.test(code))
  expect(files.length).toBeGreaterThan(40)
  expect(files.filter((name) => !isThere(name))).toEqual([])
})

test('the guided walk says to look at what is in one of the files of its row', () => {
  const rows = [...walk.matchAll(/^\| (`[\w/-]+\/[\w-]+\.ts`[^|]*) \| ([^|]*) \| [^|]+ \|$/gm)]
  expect(rows.length).toBeGreaterThan(25)
  const missing = rows.flatMap(([, files = '', things = '']) => {
    const named = codeIn(files).map((name) => basename(name))
    const texts = sources
      .filter((path) => named.includes(basename(path)))
      .map((path) => readFileSync(join(ROOT, path), 'utf8'))
    return codeIn(things).filter((thing) => !texts.some((text) => text.includes(thing)))
  })
  expect(missing).toEqual([])
})

test('each package has a line that says what it is for', () => {
  const { dependencies, devDependencies } = JSON.parse(
    readFileSync(join(ROOT, 'package.json'), 'utf8'),
  ) as Record<string, Record<string, string>>
  const listed = new Set(codeIn(walk.slice(walk.indexOf('## Dependencies'))))
  const missing = Object.keys({ ...dependencies, ...devDependencies }).filter(
    (name) => !listed.has(name) && !listed.has(basename(name)) && !name.startsWith('@types/'),
  )
  expect(missing).toEqual([])
})
