import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const ROOT = join(import.meta.dirname, '..')

/** Words that the project does not use, each with the word to use in its place. */
const REPLACED: Readonly<Record<string, string>> = {
  'tell(s|ing|ings)?|told': 'report, notify, return, state',
  'nobody|somebody|whoever': 'name the subject',
  'a person|for people': 'an operator; manual review',
  'doors?': 'server, protocol',
  'seal(s|ed|ing|er)?|reseal(s|ed)?': 'encrypt, re-encrypt',
  'pacing|paced': 'concurrency limiter',
  'posters?': 'HTTP client',
  'book.?marks?': 'balance snapshot',
  'ledger.lines?': 'archived entry',
  'portions?': 'page',
  'patience|impatient': 'time-out',
  'under way': 'in progress',
  'is away|are away': 'is unavailable',
  'heard|kick(s|ed)?': 'onNotify, trigger',
  'look(s|ed)? again': 'retry',
}

/** Where a word of the list is right. */
const EXCEPTIONS: readonly RegExp[] = [
  // The user of the operating system.
  /server-user\.ts|uid: 65534/,
  // The message of an error, in the interface specification.
  /"message": "for people"/,
]

const FILES = [
  ...['src', 'test', 'proto/inflow'].flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => /\.(ts|sql|proto|md|sh)$/.test(name))
      .map((name) => join(folder, name)),
  ),
  'README.md',
  'CHANGELOG.md',
].filter((name) => name !== 'test/glossary.test.ts')

test.each(Object.entries(REPLACED))('no text uses "%s": %s', (words) => {
  const pattern = new RegExp(`(?<![\\w-])(${words})(?![\\w-])`, 'i')
  const uses = FILES.flatMap((file) =>
    readFileSync(join(ROOT, file), 'utf8')
      .split('\n')
      .map((line, index) => `${file}:${index + 1}: ${line.trim()}`)
      .filter((line) => pattern.test(line.slice(line.indexOf(' ')))),
  )
  expect(uses.filter((use) => !EXCEPTIONS.some((exception) => exception.test(use)))).toEqual([])
})
