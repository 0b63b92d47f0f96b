import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { inflow, temporaryFolder } from './run-inflow.ts'

vi.setConfig({ testTimeout: 60_000 })

test('up makes the embedded database and its schema; status tells of both', async () => {
  const DATA_DIR = join(temporaryFolder(), 'data')
  const env = { DATA_DIR }
  const before = await inflow(['migrate', 'status'], { env })
  expect(before).toMatchObject({ code: 1, stdout: '' })
  expect(before.stderr).toMatch(/^error: there is no database in .*postgres yet: /)
  expect(existsSync(DATA_DIR)).toBe(false)

  const up = await inflow(['migrate', 'up'], { env })
  expect(up.code, up.stderr).toBe(0)
  expect(up.stdout).toMatch(/^Migration\d{14}_initial$/m)
  const again = await inflow(['migrate', 'up', '--json'], { env })
  expect(again.code).toBe(0)
  expect(JSON.parse(again.stdout)).toEqual({ applied: [] })

  const status = await inflow(['migrate', 'status'], { env })
  expect(status.code).toBe(0)
  expect(status.stdout).toMatch(/^MIGRATION +APPLIED AT\nMigration\d{14}_initial +\d{4}-/)
  const json = await inflow(['migrate', 'status', '--json'], { env })
  const { migrations } = JSON.parse(json.stdout) as { migrations: { appliedAt: string | null }[] }
  expect(migrations.every(({ appliedAt }) => appliedAt !== null)).toBe(true)
})

test('a DATABASE_URL that is none, or where nobody listens, is told in one line', async () => {
  const wrong = await inflow(['migrate', 'status'], { env: { DATABASE_URL: 'nonsense' } })
  expect(wrong).toMatchObject({ code: 2, stdout: '' })
  expect(wrong.stderr).toMatch(/^error: DATABASE_URL must be like postgres:.*\n$/)
  const DATABASE_URL = 'postgres://inflow:hidden@127.0.0.1:1/none'
  const away = await inflow(['migrate', 'up'], { env: { DATABASE_URL } })
  expect(away).toMatchObject({ code: 3, stdout: '' })
  expect(away.stderr).toMatch(/^error: cannot reach the database at 127\.0\.0\.1:1.*\n$/)
  expect(away.stderr).not.toContain('hidden')
})
