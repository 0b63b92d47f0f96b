import { randomBytes } from 'node:crypto'
import { Registry } from 'prom-client'
import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { beginAuditLog, createAuditExport } from '../../src/auth/audit/export-audit-head.ts'
import { authenticatedAudit } from '../../src/auth/audit/re-mac-audit.ts'
import { createEncrypter } from '../../src/crypto/encryption.ts'
import { reEncrypt } from '../../src/crypto/key-rotation.ts'
import { captureLog } from '../support/captured-log.ts'
import { useDatabase } from '../support/database.ts'
import { MASTER_KEY } from '../support/master-key.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { waitFor } from '../support/wait-for.ts'
import { append, firstBad, keys, OPERATOR, readAll, withoutTriggers } from './audit-fixture.ts'

const db = useDatabase()
const pool = () => db.database.durablePool
const TABLES = ['audit_entry', 'audit_mac', 'audit_head'] as const
const COUNT = 12

/** Hashes every entry again, in order, and the head: all that the database alone can compute. */
const REHASH = `do $$
  declare
    previous bytea := decode(repeat('00', 32), 'hex');
    entry audit_entry%rowtype;
  begin
    for entry in select * from audit_entry order by number loop
      entry.previous_hash := previous;
      previous := audit_hash(entry);
      update audit_entry set previous_hash = entry.previous_hash, hash = previous where number = entry.number;
    end loop;
    update audit_head set hash = previous;
  end $$`

/** Removes the last entries and their MACs, and puts the head back to the entry before them. */
const removeAfter = (number: number): readonly [string, ...unknown[]][] => [
  ['delete from audit_entry where number > $1', number],
  ['delete from audit_mac where number > $1', number],
  [
    'update audit_head set (number, hash) = (select number, hash from audit_entry where number = $1)',
    number,
  ],
]

beforeAll(async () => {
  await beginAuditLog(pool(), keys)
  for (let number = 1; number <= COUNT; number++) await append(pool(), `key_${number}`)
  for (const table of TABLES) await pool().query(`create table kept_${table} as table ${table}`)
})

afterEach(async () => {
  const restore = TABLES.flatMap((table): [string][] => [
    [`delete from ${table}`],
    [`insert into ${table} table kept_${table}`],
  ])
  await withoutTriggers(pool(), ...restore)
  expect(await firstBad(pool())).toBeUndefined()
})

describe('with the master key alone, verification finds that the owner of the database', () => {
  test.each([5])('rewrote entry %i, and every hash after it', async (number) => {
    await withoutTriggers(
      pool(),
      ["update audit_entry set actor_name = 'another' where number = $1", number],
      [REHASH],
    )
    expect(await firstBad(pool())).toBe(BigInt(number))
    // What the service appends later does not hide it.
    await append(pool(), 'key_later')
    expect(await firstBad(pool())).toBe(BigInt(number))
  })

  test('removed an entry from the middle, and numbered and hashed the rest again', async () => {
    await withoutTriggers(
      pool(),
      ['delete from audit_entry where number = 5'],
      ['update audit_entry set number = -number where number > 5'],
      ['update audit_entry set number = -number - 1 where number < 0'],
      ['update audit_head set number = number - 1'],
      [REHASH],
    )
    expect(await firstBad(pool())).toBe(5n)
  })

  test('removed the last entries, and put the head back', async () => {
    await withoutTriggers(pool(), ...removeAfter(9))
    expect(await firstBad(pool())).toBe(9n)
    // The entry in place of the removed ones does not get a MAC, and the ones after it do.
    await append(pool(), 'key_in_its_place')
    await append(pool(), 'key_later')
    expect(await firstBad(pool())).toBe(10n)
    const { entries } = await readAll(pool())
    expect(entries.slice(8).map(({ authentic }) => authentic)).toEqual([true, false, true])
  })

  test('removed every entry, and put the head back to that of an empty log', async () => {
    await withoutTriggers(
      pool(),
      ['delete from audit_entry'],
      ['delete from audit_mac'],
      ["update audit_head set number = 0, hash = decode(repeat('00', 32), 'hex'), mac = ''"],
    )
    expect(await firstBad(pool())).toBe(0n)
    await append(pool(), 'key_first')
    expect(await firstBad(pool())).toBe(1n)
  })

  test('inserted an entry, with the MAC of another or of the head', async () => {
    const insert = `insert into audit_entry (actor_kind, actor_id, actor_name, address, request_id,
      action, target_kind, target_id, details) values ('system', '', '', '', '', 'key.issue', 'key', 'k', '{}')`
    await pool().query(insert)
    const forged = BigInt(COUNT + 1)
    expect(await firstBad(pool())).toBe(forged)
    for (const source of ['audit_mac where number = 12', 'audit_head']) {
      await pool().query(
        `insert into audit_mac (number, mac) select $1, mac from ${source}
          on conflict (number) do update set mac = excluded.mac`,
        [COUNT + 1],
      )
      expect(await firstBad(pool())).toBe(forged)
    }
  })

  test('authenticated entries with a master key of their own', async () => {
    const forged = createEncrypter(randomBytes(32))
    const auditKeys = { ...keys, mac: forged.mac }
    await append(pool(), 'key_forged', { ...OPERATOR, auditKeys })
    expect(await firstBad(pool())).toBe(BigInt(COUNT + 1))
  })
})

describe('a rotation of the master key', () => {
  const next = createEncrypter(randomBytes(32), [MASTER_KEY])
  const rotate = () => reEncrypt([authenticatedAudit(pool())], next, () => undefined)

  test('authenticates the log under the new key, and no longer needs the old one', async () => {
    const table = authenticatedAudit(pool())
    expect(await table.countByKey()).toEqual(new Map([[keys.keyId, COUNT + 1]]))
    // One instance uses the new key already. One that does not know it yet cannot verify the head.
    await append(pool(), 'key_new', { ...OPERATOR, auditKeys: next })
    await expect(append(pool(), 'key_old')).rejects.toMatchObject({ reason: 'unavailable' })
    expect(await firstBad(pool(), next)).toBeUndefined()
    expect(await firstBad(pool(), keys)).toBe(BigInt(COUNT + 1))
    expect(await rotate()).toEqual({ reEncrypted: COUNT, unreadable: 0, unreadableIds: [] })
    expect(await table.countByKey()).toEqual(new Map([[next.keyId, COUNT + 2]]))
    expect(await firstBad(pool(), next)).toBeUndefined()
    expect(await rotate()).toMatchObject({ reEncrypted: 0 })
  })

  test('does not authenticate what was changed: it names it, and keeps its MAC', async () => {
    await withoutTriggers(
      pool(),
      ['update audit_entry set details = \'{"x": 1}\' where number = 5'],
      ['delete from audit_entry where number = 12'],
      ['delete from audit_mac where number = 12'],
      ['update audit_head set number = 11'],
      [REHASH],
    )
    const { unreadableIds } = await rotate()
    expect(unreadableIds).toEqual([
      ...[5, 6, 7, 8, 9, 10, 11].map((number) => `audit entry ${number}`),
      'audit head',
    ])
    expect(await firstBad(pool(), next)).toBe(5n)
  })
})

test('the head is exported to the log, with its MAC, and as a metric; a changed one is an error', async () => {
  const { log, lines } = captureLog()
  const exported = async () => {
    const metrics = new Registry()
    const runtime = createTestRuntime({ durablePool: pool() }, { log, metrics })
    const loop = createAuditExport(runtime, keys)
    const before = lines.length
    loop.start()
    await waitFor(async () => expect(lines.length).toBeGreaterThan(before))
    await loop.stop()
    const text = await metrics.metrics()
    expect(text).toMatch(new RegExp(`^inflow_audit_entries ${COUNT}$`, 'm'))
    const [, invalid] = /^inflow_audit_head_invalid (\d)$/m.exec(text) ?? []
    const [, at] = /^inflow_audit_last_export_timestamp_seconds (\S+)$/m.exec(text) ?? []
    expect(Math.abs(Number(at) - Date.now() / 1_000)).toBeLessThan(60)
    return { ...lines.at(-1), invalid }
  }
  const { head } = await readAll(pool())
  expect(await exported()).toMatchObject({
    level: 30,
    msg: 'audit head',
    number: COUNT,
    hash: head.hash,
    invalid: '0',
    mac: expect.stringMatching(/^01[0-9a-f]{72}$/),
  })
  await withoutTriggers(pool(), ["update audit_head set hash = sha256('x')"])
  expect(await exported()).toMatchObject({
    level: 50,
    msg: expect.stringContaining('audit verify'),
    invalid: '1',
  })
})
