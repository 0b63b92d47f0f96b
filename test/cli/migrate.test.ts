import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { useDatabase } from '../support/database.ts'
import { temporaryFolder } from '../support/folder.ts'
import { runHere } from './run-inflow.ts'

const db = useDatabase()

test('up creates the embedded database and its schema; status reports both', async () => {
  const DATA_DIR = join(temporaryFolder(), 'data')
  const env = { DATA_DIR }
  const before = await runHere(['migrate', 'status'], env)
  expect(before).toMatchObject({ code: 1, stdout: '' })
  expect(before.stderr).toMatch(/^error: there is no database in .*postgres yet: /)
  expect(existsSync(DATA_DIR)).toBe(false)

  const up = await runHere(['migrate', 'up'], env)
  expect(up.code, up.stderr).toBe(0)
  expect(up.stdout).toMatch(/^Migration\d{14}_initial$/m)
  const status = await runHere(['migrate', 'status'], env)
  expect(status.code, status.stderr).toBe(0)
  expect(status.stdout).toMatch(/^MIGRATION +APPLIED AT\nMigration\d{14}_initial +\d{4}-/)
})

test('with a schema that is up to date, up changes nothing; --json prints one document', async () => {
  const env = { DATABASE_URL: db.url }
  expect(await runHere(['migrate', 'up'], env)).toEqual({
    code: 0,
    stdout: '',
    stderr: 'Nothing to do: the schema is up to date.\n',
  })
  const up = await runHere(['migrate', 'up', '--json'], env)
  expect(JSON.parse(up.stdout)).toEqual({ applied: [] })
  const status = await runHere(['migrate', 'status', '--json'], env)
  expect(status.code).toBe(0)
  const { migrations } = JSON.parse(status.stdout) as { migrations: { appliedAt: string | null }[] }
  expect(migrations.every(({ appliedAt }) => appliedAt !== null)).toBe(true)
})

test('a database that does not exist is not created', async () => {
  const DATABASE_URL = db.url.replace(/[^/]*$/, 'mistyped')
  expect(await runHere(['migrate', 'up'], { DATABASE_URL })).toEqual({
    code: 1,
    stdout: '',
    stderr:
      'error: DATABASE_URL cannot be used: database "mistyped" does not exist on that server: correct the name, or create it\n',
  })
})

test('an invalid or unreachable DATABASE_URL is reported in one line', async () => {
  const wrong = await runHere(['migrate', 'status'], { DATABASE_URL: 'nonsense' })
  expect(wrong).toMatchObject({ code: 2, stdout: '' })
  expect(wrong.stderr).toMatch(/^error: DATABASE_URL must be like postgres:.*\n$/)
  const DATABASE_URL = 'postgres://inflow:hidden@127.0.0.1:1/none'
  const unreachable = await runHere(['migrate', 'up'], { DATABASE_URL })
  expect(unreachable).toMatchObject({ code: 3, stdout: '' })
  expect(unreachable.stderr).toMatch(/^error: cannot reach the database at 127\.0\.0\.1:1.*\n$/)
  expect(unreachable.stderr).not.toContain('hidden')
})
