import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ROOT } from '../support/embedded-service.ts'

const FOLDERS: Readonly<Record<string, string>> = { python: 'py', go: 'go', php: 'php' }

/** The code of the guide: whole programs, or parts of them. */
const blocks = [
  ...readFileSync(join(ROOT, 'src/docs/clients.md'), 'utf8').matchAll(
    /^```(py|go|php)\n([\s\S]*?)^```$/gm,
  ),
].map(([, language = '', code = '']) => ({ language, code }))

const programs = Object.entries(FOLDERS).flatMap(([folder, language]) =>
  readdirSync(join(import.meta.dirname, folder))
    .filter((name) => name.endsWith(`.${language}`))
    .map((name) => {
      const text = readFileSync(join(import.meta.dirname, folder, name), 'utf8')
      return { name: join(folder, name), language, text }
    }),
)

const isPartOf = (code: string, text: string) => `\n${text}`.includes(`\n${code}`)

test.each(programs)('the guide shows $name, or a part of it', ({ language, text }) => {
  const shown = blocks.filter((block) => block.language === language && isPartOf(block.code, text))
  expect(shown).toHaveLength(1)
})

test('the guide shows no code that the tests do not run', () => {
  expect(blocks).toHaveLength(programs.length)
})
