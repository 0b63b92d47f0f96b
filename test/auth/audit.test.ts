import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import { appendAudit } from '../../src/auth/audit/append-audit-entry.ts'
import { beginAuditLog } from '../../src/auth/audit/export-audit-head.ts'
import { listAuditEntries } from '../../src/auth/audit/list-audit-entries.ts'
import { verifyAudit } from '../../src/auth/audit/verify-audit.ts'
import { inTransaction } from '../../src/postgres/in-transaction.ts'
import { useDatabase } from '../support/database.ts'
import { SYSTEM } from '../support/operator.ts'
import * as audit from './audit-fixture.ts'
import { ALL, keys, OPERATOR } from './audit-fixture.ts'

const db = useDatabase()
const pool = () => db.database.durablePool
const firstBad = () => audit.firstBad(pool())
const readAll = () => audit.readAll(pool())
const withoutTriggers = (...statements: [string, ...unknown[]][]) =>
  audit.withoutTriggers(pool(), ...statements)

async function countEntries(): Promise<number> {
  return (await pool().query('select count(*)::int as count from audit_entry')).rows[0].count
}

const append = (targetId: string, details: Record<string, unknown> = {}) =>
  db.database.orm.em
    .fork()
    .transactional((em) => appendAudit(em, OPERATOR, { action: 'key.revoke', targetId, details }))

const COUNT = 24
const NEWEST = { ...ALL, oldestFirst: false }

beforeAll(async () => {
  await beginAuditLog(pool(), keys)
  expect(await firstBad()).toBeUndefined()
  for (let index = 0; index < COUNT; index++) await append(`key_${index}`, { index })
})

describe('appending', () => {
  test('the database computes the same hash as a client, whatever the entries contain', async () => {
    const before = await countEntries()
    const text = fc
      .string({ unit: 'grapheme', maxLength: 40 })
      .map((each) => each.replace(/\0/g, ''))
    await fc.assert(
      fc.asyncProperty(text, text, text, text, async (name, targetId, value, business) => {
        const actor = { ...OPERATOR, name }
        const businessId = business === '' ? undefined : business
        await inTransaction(pool(), (client) =>
          appendAudit(client, actor, {
            action: 'key.issue',
            targetId,
            businessId,
            details: { value },
          }),
        )
        const { rows } = await listAuditEntries(pool(), keys, NEWEST, 1, '')
        expect(rows[0]).toMatchObject({
          actorName: name,
          targetId,
          businessId: business,
          details: JSON.stringify({ value }),
        })
      }),
      { numRuns: 15 },
    )
    expect(await countEntries()).toBe(before + 15)
    expect(await firstBad()).toBeUndefined()
  })

  test('concurrent appends get dense numbers, each chained to the previous entry', async () => {
    const before = await countEntries()
    // No more at once than there are connections, for one of which an append waits 5 s at most.
    for (let round = 0; round < 4; round++) {
      const names = Array.from({ length: 15 }, (_, index) => `key_at_once_${round}_${index}`)
      await Promise.all(names.map((name) => append(name)))
    }
    const { entries } = await readAll()
    expect(entries.map((entry) => Number(entry.number))).toEqual(
      Array.from({ length: before + 60 }, (_, index) => index + 1),
    )
    expect(await firstBad()).toBeUndefined()
  })

  test('a rolled back append leaves neither an entry nor a gap', async () => {
    const before = await readAll()
    const rolledBack = db.database.orm.em.fork().transactional(async (em) => {
      await appendAudit(em, SYSTEM, { action: 'key.revoke', targetId: 'key_rolled_back' })
      throw new Error('rolled back')
    })
    await expect(rolledBack).rejects.toThrow('rolled back')
    expect(await readAll()).toEqual(before)
    await append('key_after')
    expect(await firstBad()).toBeUndefined()
  })

  test('replaces a value that is too long by its length', async () => {
    await append('key_long', { name: 'x', kinds: ['y'.repeat(5_000)] })
    const { entries } = await readAll()
    expect(JSON.parse(entries.at(-1)!.details)).toEqual({ name: 'x', kinds: '5004 bytes' })
    expect(await firstBad()).toBeUndefined()
  })

  test('overwrites numbers, times and hashes that an insert states', async () => {
    const before = await countEntries()
    await pool().query(
      `insert into audit_entry (number, at, actor_kind, actor_id, actor_name, address, request_id,
          action, target_kind, target_id, details, previous_hash, hash)
        values (7, '2001-01-01', 'system', '', '', '', '', 'a.b', 'a', '', '{}', '', '')`,
    )
    const { entries } = await readAll()
    expect(entries.at(-1)!.number).toBe(BigInt(before + 1))
    // It joins the chain, but has no MAC: the service did not append it.
    expect(await firstBad()).toBe(BigInt(before + 1))
    await withoutTriggers(
      ['delete from audit_entry where number = $1', before + 1],
      [
        "update audit_head set number = number - 1, hash = decode($1, 'hex')",
        entries.at(-1)!.previousHash,
      ],
    )
    expect(await firstBad()).toBeUndefined()
  })
})

describe('the database refuses', () => {
  test.each([
    'update audit_entry set details = details',
    'delete from audit_entry where number = 1',
    'truncate audit_entry',
    'truncate audit_head',
    'delete from audit_mac where number = 1',
    'truncate audit_mac',
    'delete from audit_head',
    'update audit_head set number = number - 1',
    'update audit_head set number = number',
    "insert into audit_head (id, number, hash, mac) values (2, 0, '', '')",
  ])('%s', async (sql) => {
    await expect(pool().query(sql)).rejects.toThrow(
      /never changed or removed|one entry at a time|audit_head_one_row/,
    )
  })
})

/** Changes that an attacker could make without the triggers: a column, and its new value. */
const FIELDS: Readonly<Record<string, fc.Arbitrary<string>>> = {
  number: fc.constant('number + 1000000'),
  at: fc.integer({ min: 1, max: 1e9 }).map((ms) => `at + interval '${ms} ms'`),
  actor_kind: fc.constant("'secret_key'"),
  ...Object.fromEntries(
    ['actor_id', 'actor_name', 'address', 'request_id', 'action'].map((name) => [
      name,
      fc.constantFrom(`${name} || 'x'`, `${name} || ','`, "'1:1,'"),
    ]),
  ),
  target_kind: fc.constant("'token'"),
  target_id: fc.constantFrom("target_id || ' '", "''"),
  business_id: fc.constant("'biz_x'"),
  details: fc.constantFrom("'{}'", "details || ' '"),
  previous_hash: fc.constant("sha256('x')"),
  hash: fc.constant("sha256('x')"),
}

const COLUMNS = Object.keys(FIELDS).join(', ')
const entryNumber = fc.integer({ min: 1, max: COUNT })

/** Tampers, returns the number of the reported entry, and restores all entries. */
async function tampered(...statements: [string, ...unknown[]][]): Promise<bigint | undefined> {
  await pool().query('create table if not exists kept as select * from audit_entry')
  try {
    await withoutTriggers(...statements)
    return await firstBad()
  } finally {
    await withoutTriggers(
      ['delete from audit_entry'],
      [`insert into audit_entry (${COLUMNS}) select ${COLUMNS} from kept`],
      ['drop table kept'],
    )
  }
}

describe('verification names the first entry that', () => {
  test('was changed, in any field', async () => {
    for (const name of Object.keys(FIELDS)) {
      const value = fc.sample(FIELDS[name]!, 1)[0]!
      const sql = `update audit_entry set ${name} = ${value} where number = 9`
      expect([name, await tampered([sql])]).toEqual([name, 9n])
    }
    expect(await firstBad()).toBeUndefined()
  })

  test('is missing', async () => {
    await fc.assert(
      fc.asyncProperty(entryNumber, fc.integer({ min: 0, max: 3 }), async (first, more) => {
        const sql = 'delete from audit_entry where number between $1 and $2'
        expect(await tampered([sql, first, first + more])).toBe(BigInt(first))
      }),
      { numRuns: 5 },
    )
  })

  test('was swapped with another', async () => {
    const swap = `update audit_entry set number = -number where number in ($1, $2)`
    const back = `update audit_entry set number = case number when -$1 then $2 else $1 end
      where number < 0`
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(entryNumber, { minLength: 2, maxLength: 2 }),
        async (pair) => {
          const [a, b] = pair as [number, number]
          const values = [a, b] as const
          expect(
            await tampered([swap, ...values], [back.replaceAll(/\$(\d)/g, '$$$1::int'), ...values]),
          ).toBe(BigInt(Math.min(a, b)))
        },
      ),
      { numRuns: 3 },
    )
  })

  test('was removed from the end', async () => {
    const last = BigInt(await countEntries())
    expect(await tampered([`delete from audit_entry where number = ${last}`])).toBe(last)
    expect(await tampered(['delete from audit_entry'])).toBe(1n)
  })
})

test('the log is verified with progress, from where an earlier verification ended', async () => {
  const verify = async (from = '') => {
    const progress: { number: bigint; completed: boolean; cursor: string; broken: unknown }[] = []
    const { signal } = new AbortController()
    for await (const each of verifyAudit(db.database, keys, from, signal, 20)) progress.push(each)
    return progress
  }
  const count = BigInt(await countEntries())
  const progress = await verify()
  expect(progress[0]).toMatchObject({ number: 20n, completed: false })
  const last = progress.at(-1)!
  expect(last).toMatchObject({ number: count, completed: true, broken: undefined })
  await append('key_last')
  for (const { cursor } of [progress[0]!, last]) {
    expect((await verify(cursor)).at(-1)).toMatchObject({ number: count + 1n, completed: true })
  }
  // What was verified before is not verified again.
  const change = `update audit_entry set target_id = 'x' where number = ${count - 1n}`
  await withoutTriggers([change])
  expect((await verify()).at(-1)).toMatchObject({
    number: count - 2n,
    completed: true,
    broken: { number: count - 1n, why: expect.stringContaining('was changed') },
  })
  expect((await verify(last.cursor)).at(-1)).toMatchObject({ broken: undefined })
  await withoutTriggers([`delete from audit_entry where number = ${count + 1n}`])
  const [missing] = await verify(last.cursor)
  expect(missing).toMatchObject({ broken: { number: count + 1n, why: 'is missing' } })
})
