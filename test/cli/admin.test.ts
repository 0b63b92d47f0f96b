import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { appendAudit } from '../../src/auth/audit/append-audit-entry.ts'
import { inTransaction } from '../../src/postgres/in-transaction.ts'
import { until } from '../protocols/rest/rest.ts'
import { tamper } from '../support/database.ts'
import { temporaryFolder } from '../support/folder.ts'
import { SYSTEM } from '../support/operator.ts'
import { useService } from '../support/service.ts'
import { callerEnv, runHere } from './run-inflow.ts'

const service = useService()
const run = (...args: string[]) => runHere(args, callerEnv(service))
const TIME = String.raw`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`

let businessId: string

beforeAll(async () => {
  businessId = (await service.business('Acme')).id
})

test('a token is issued, shown once, listed, used and revoked', async () => {
  const scopes = ['--scope', 'read', 'events:subscribe', '--business', businessId]
  const more = ['--description', 'follows events', '--expires-at', '2099-01-01T00:00:00Z']
  const issued = await run('token', 'issue', '--name', 'ledger', ...scopes, ...more)
  expect(issued).toMatchObject({ code: 0, stderr: 'The token is shown only once: store it now.\n' })
  const secret = /^Token +(it_\S+)$/m.exec(issued.stdout)?.[1] ?? ''
  const id = /^Id +(tok_\S+)$/m.exec(issued.stdout)?.[1] ?? ''
  expect(issued.stdout).toMatch(/^Scopes +read events:subscribe$/m)
  expect(issued.stdout).toMatch(/^Expires at +2099-01-01 00:00:00$/m)
  expect(issued.stdout).toMatch(/^Description +follows events$/m)

  await service.business('Other')
  const seen = await runHere(['business', 'list', '--json'], callerEnv(service, secret))
  expect(JSON.parse(seen.stdout).businesses).toMatchObject([{ id: businessId }])
  const listed = await run('token', 'list')
  const row = listed.stdout.split('\n').find((line) => line.startsWith(id))
  expect(row).toMatch(
    new RegExp(`^${id}  ledger  ${secret.slice(0, 13)}  read events:subscribe  ${businessId}`),
  )

  const revoked = await run('token', 'revoke', id, '--yes')
  expect(revoked.stdout).toMatch(new RegExp(`^Revoked at +${TIME}$`, 'm'))
  expect(revoked.stdout).not.toContain(secret)
  const refused = await until(
    () => runHere(['business', 'list'], callerEnv(service, secret)),
    (outcome) => outcome.code === 1,
  )
  expect(refused.stderr).toMatch(/\(unauthorized\)\n$/)
})

test('a key of another provider is imported from a file, and never shown', async () => {
  const text = `other_${'0123456789'.repeat(4)}`
  const path = join(temporaryFolder(), 'old-key.txt')
  writeFileSync(path, `${text}\n`)
  const imported = await run('key', 'import', '--business', businessId, '--secret-key-file', path)
  expect(imported).toMatchObject({ code: 0, stderr: '' })
  expect(imported.stdout).toMatch(/^Prefix +other_0123$/m)
  expect(imported.stdout).not.toContain(text)
  expect((await service.post('getBalance/', text, {})).status).toBe(200)
})

test('the audit log is listed, newest first, with filters', async () => {
  const { key } = JSON.parse((await run('key', 'issue', '--business', businessId, '--json')).stdout)
  await run('key', 'revoke', key.id, '--yes')
  const listed = await run('audit', 'list', '--target', key.id)
  expect(listed.code).toBe(0)
  const [head, first, second] = listed.stdout.split('\n')
  expect(head).toMatch(/^NUMBER +AT +ACTOR +FROM +ACTION +TARGET +BUSINESS +DETAILS$/)
  const row = (action: string) =>
    new RegExp(String.raw`^ *\d+  ${TIME}  bootstrap +\S+  ${action} +${key.id}  ${businessId}  \{`)
  expect(first).toMatch(row('key.revoke'))
  expect(second).toMatch(row('key.issue'))
  const filtered = async (...options: string[]) =>
    JSON.parse((await run('audit', 'list', '--json', ...options)).stdout).entries.length
  const all = ['--business', businessId, '--from', '2000-01-01', '--oldest-first']
  expect(await filtered('--target', key.id, ...all)).toBe(2)
  expect(await filtered('--target', key.id, '--action', 'key.revoke')).toBe(1)
  expect(await filtered('--target', key.id, '--actor', 'tok_nobody')).toBe(0)
  expect(await filtered('--target', key.id, '--to', '2000-01-01')).toBe(0)
})

async function verify(...options: string[]) {
  const outcome = await run('audit', 'verify', '--json', ...options)
  return { ...outcome, answer: JSON.parse(outcome.stdout) }
}

test('the audit log is verified over many pages, and the head is remembered', async () => {
  await inTransaction(service.database.durablePool, async (client) => {
    for (let i = 1; i <= 450; i++)
      await appendAudit(client, SYSTEM, { action: 'key.issue', targetId: `key_${i}` })
  })
  const shown = await run('audit', 'verify')
  const [, number, hash = ''] =
    /^Verified {2}(\d+) entries\nHead {6}([0-9a-f]{64})\n$/.exec(shown.stdout) ?? []
  expect(shown.code).toBe(0)
  expect(Number(number)).toBeGreaterThan(450)
  await service.business('One more')
  const later = await verify('--expect-head', hash)
  expect(later).toMatchObject({ code: 0, answer: { intact: true, broken: null } })
  expect(later.answer.head.number).toBe(Number(number) + 1)
})

test('entries that were removed from the end are detected with the head of an earlier run', async () => {
  const { rows } = await service.database.durablePool.query('select mac from audit_head')
  await service.business('To be removed')
  const { answer: before } = await verify()
  // An attacker puts back the head, and its MAC from an earlier copy.
  await tamper(
    service.database.durablePool,
    `delete from audit_entry where number = ${before.head.number};
    delete from audit_mac where number = ${before.head.number};
    update audit_head set mac = '\\x${rows[0].mac.toString('hex')}', (number, hash) =
      (select number, hash from audit_entry order by number desc limit 1)`,
  )
  expect(await verify()).toMatchObject({ code: 0, answer: { intact: true } })
  expect(await verify('--expect-head', before.head.hash)).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('it lacks the expected head'),
    answer: { intact: false, broken: null },
  })
  const malformed = await run('audit', 'verify', '--expect-head', 'xyz')
  expect(malformed).toMatchObject({ code: 2, stdout: '' })
})
