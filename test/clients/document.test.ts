import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { ROOT } from '../support/embedded-service.ts'

const FOLDERS: Readonly<Record<string, string>> = { python: 'py', go: 'go', php: 'php' }

const document = readFileSync(join(ROOT, 'src/docs/clients.md'), 'utf8')

const programs = Object.entries(FOLDERS).flatMap(([folder, language]) =>
  readdirSync(join(import.meta.dirname, folder))
    .filter((name) => name.endsWith(`.${language}`))
    .map((name) => [join(folder, name), language] as const),
)

test.each(programs)('the guide shows %s as the tests run it', (path, language) => {
  const text = readFileSync(join(import.meta.dirname, path), 'utf8')
  expect(document).toContain(`\n\`\`\`${language}\n${text}\`\`\`\n`)
})

test('the guide shows no program that the tests do not run', () => {
  const blocks = document.match(/^```(py|go|php)$/gm)
  expect(blocks).toHaveLength(programs.length)
})
