import { execFileSync } from 'node:child_process'
import { parseEnv } from 'node:util'
import { expect, test } from 'vitest'
import { settingLines } from '../../src/app/initialize.ts'

const SETTINGS = {
  DATABASE_URL: 'postgres://u:p%40@h:5432/d?sslmode=verify-full&sslrootcert=/ca.pem',
  MASTER_KEY: 'AbC+/0123456789=',
  ADMIN_TOKEN: `a"b$HOME\\c#d`,
}

test('Node and a shell read what is written', () => {
  const text = settingLines(SETTINGS)
  expect({ ...parseEnv(text) }).toEqual(SETTINGS)
  const script = `${text}printf '%s\\n' "$DATABASE_URL" "$MASTER_KEY" "$ADMIN_TOKEN"`
  const read = execFileSync('sh', ['-c', script], { encoding: 'utf8' })
  expect(read.trimEnd().split('\n')).toEqual(Object.values(SETTINGS))
})

test('plain values have no quotes, which Docker and kubectl would keep', () => {
  expect(settingLines({ MASTER_KEY: SETTINGS.MASTER_KEY })).toBe('MASTER_KEY=AbC+/0123456789=\n')
})

test('a value that no quotes can hold is refused', () => {
  expect(() => settingLines({ ADMIN_TOKEN: `'"\`` })).toThrow('a setting cannot be written')
})
