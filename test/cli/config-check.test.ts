import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import type { Explanation } from '../../src/config/explain-settings.ts'
import { runHere, temporaryFolder } from './run-inflow.ts'

const KEY = Buffer.from(Array.from({ length: 32 }, (_, i) => i * 5)).toString('base64')

function envFile(text: string, mode = 0o600): string {
  const path = join(temporaryFolder(), 'inflow.env')
  writeFileSync(path, text, { mode })
  return path
}

test('prints every setting, and exits with 0 if the service would start', async () => {
  const path = envFile(`DATABASE_URL=postgres://u:hidden@db/inflow\nMASTER_KEY=${KEY}\n`)
  const { code, stdout, stderr } = await runHere(['config', 'check', '--env-file', path])
  expect([code, stderr]).toEqual([0, 'All settings are valid.\n'])
  expect(stdout).toMatch(/^SETTING +VALUE +SOURCE +DEFAULT\n/)
  expect(stdout).toMatch(
    /^DATABASE_URL +postgres:\/\/u:\*{8}@db\/inflow +env-file +none: embedded$/m,
  )
  expect(stdout).toMatch(/^HTTP_PORT +8080 +default +8080$/m)
  expect(stdout).not.toMatch(/hidden|AAUKDx/)
})

test('the environment wins over the file', async () => {
  const path = envFile('HTTP_PORT=1\n')
  const { stdout } = await runHere(['config', 'check', '--env-file', path], { HTTP_PORT: '2' })
  expect(stdout).toMatch(/^HTTP_PORT +2 +environment +8080$/m)
})

test('names misspelt settings and exposed secrets, and exits with 1 for faults', async () => {
  const path = envFile('HTP_PORT=1\nPORT=1\nADMIN_TOKEN=short\nDATA_DIR=x\n', 0o644)
  const { code, stderr } = await runHere(['config', 'check', '--env-file', path])
  expect(code).toBe(1)
  expect(stderr).toBe(
    `warning: other users can read ADMIN_TOKEN in ${path}: chmod 600 ${path}\n` +
      'warning: PORT is not a setting\n' +
      'error: the service does not start\n' +
      '  HTP_PORT is not a setting; did you mean HTTP_PORT?\n' +
      '  ADMIN_TOKEN must be 32 to 200 printable ASCII characters without spaces\n',
  )
})

test('prints one JSON document', async () => {
  const { code, stdout } = await runHere(['config', 'check', '--json'], { HTTP_PORT: 'x' })
  const { faults, settings }: Explanation = JSON.parse(stdout)
  expect([code, faults]).toEqual([1, ['HTTP_PORT must be a port, 0 to 65535']])
  expect(settings).toContainEqual({
    ...{ name: 'HTTP_PORT', value: 'x', source: 'environment', default: '8080' },
  })
})

test('a file that cannot be read is refused', async () => {
  const { code, stderr } = await runHere(['config', 'check', '--env-file', '/no/such'])
  expect(code).toBe(2)
  expect(stderr).toMatch(/^error: --env-file cannot be read: ENOENT/)
})
