import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync, statSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { hostname, userInfo } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { type AccountDetails, detailsText } from '../../src/accounts/account.ts'
import { encryptedAccounts } from '../../src/accounts/re-encrypt-accounts.ts'
import { encryptedTables } from '../../src/app/tables.ts'
import { withDatabase } from '../../src/cli/service/open-database.ts'
import { checkMasterKey, registerMasterKey } from '../../src/crypto/check-master-key.ts'
import { createEncrypter } from '../../src/crypto/encryption.ts'
import { createKeyHeartbeat } from '../../src/crypto/key-heartbeat.ts'
import { reEncrypt } from '../../src/crypto/key-rotation.ts'
import { runHere } from '../cli/run-inflow.ts'
import { asJson, creation, GENERATE, send } from '../protocols/rest/rest.ts'
import { makeFolder, temporaryFolder } from '../support/folder.ts'
import { type ServiceProcess, startProcess } from '../support/process.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { MASTER_KEY, useService } from '../support/service.ts'
import { WAIT_LIMIT_MS, waitFor } from '../support/wait-for.ts'

const service = useService()
const toBase64 = (key: Buffer) => key.toString('base64')
const OTHER = randomBytes(32)

async function openAccount(idNumber: string): Promise<string> {
  const { id: businessId, key } = await service.business()
  const { id: recipientId } = await service.business()
  await service.client(AccountService).approveSplitRecipient({ businessId, recipientId })
  // What the details' hash covers must be found again in the row.
  const terms = { amount: '100.50', expiresIn: 3600, allowedPayers: [{ name: 'Ada Obi' }] }
  const split = { recipients: [{ businessId: recipientId, percentage: '2.5' }] }
  const options = { ...terms, split, metadata: { b: '2', a: '1' } }
  const body = creation({ bank: 'PALMPAY', idType: 'nin', idNumber, ...options })
  const { body: response } = await service.post('generateVirtualAccount/', key, body)
  return response.data.reference
}

async function stored(reference: string) {
  const { rows } = await service.database.durablePool.query(
    'select id, id_number_encrypted, details_hash from account where reference = $1',
    [reference],
  )
  return rows[0]
}

describe('a start', () => {
  const check = (current: Buffer) =>
    checkMasterKey(
      service.database.orm,
      createEncrypter(current),
      encryptedTables(service.database),
    )
  const WRONG = 'MASTER_KEY is not the one that this database was encrypted with'

  test('with a master key other than the database’s fails', async () => {
    await expect(check(OTHER)).rejects.toThrow(WRONG)
    expect(await check(MASTER_KEY)).toBe(false)
  })

  test('without a key that is still needed fails, naming its id', async () => {
    const { durablePool } = service.database
    await durablePool.query("insert into master_key values ('0badc0de', '\\x00', now())")
    await expect(check(MASTER_KEY)).rejects.toThrow('MASTER_KEY_PREVIOUS lacks the key 0badc0de, ')
    await durablePool.query("delete from master_key where id = '0badc0de'")
  })

  test('with a database that has no registered key checks its encrypted rows', async () => {
    await openAccount('10000000001')
    // The heartbeat of the service registers it again.
    await waitFor(async () => {
      await service.database.durablePool.query('delete from master_key')
      await expect(check(OTHER)).rejects.toThrow(WRONG)
      expect(await check(MASTER_KEY)).toBe(true)
    })
    await registerMasterKey(service.database.orm, createEncrypter(MASTER_KEY))
  })
})

describe('a rotation', () => {
  test('skips rows that it cannot decrypt, names them, and re-encrypts the rest', async () => {
    const references = await Promise.all([2, 3, 4].map((n) => openAccount(`1000000000${n}`)))
    const [damaged, moved, whole] = await Promise.all(references.map(stored))
    const { durablePool } = service.database
    const changed = Buffer.from(damaged.id_number_encrypted)
    changed[20]! ^= 1
    await durablePool.query('update account set id_number_encrypted = $2 where id = $1', [
      damaged.id,
      changed,
    ])
    await durablePool.query("update account set last_name = 'Eve' where id = $1", [moved.id])

    const next = createEncrypter(OTHER, [MASTER_KEY])
    const done = await reEncrypt(encryptedTables(service.database), next, () => undefined)
    expect([...done.unreadableIds].sort()).toEqual([damaged.id, moved.id].sort())
    const [damagedNow, movedNow, wholeNow] = await Promise.all(references.map(stored))
    expect(damagedNow.id_number_encrypted).toEqual(changed)
    expect(movedNow).toEqual(moved)
    expect(wholeNow.id_number_encrypted).not.toEqual(whole.id_number_encrypted)
    expect(
      createEncrypter(OTHER).decrypt(wholeNow.id_number_encrypted, `id_number ${whole.id}`),
    ).toBe('10000000004')
    // Rotate back, so that the service of these tests can continue.
    await reEncrypt(
      encryptedTables(service.database),
      createEncrypter(MASTER_KEY, [OTHER]),
      () => undefined,
    )
    const unreadable = [[damaged.id, moved.id]]
    // An active account cannot be deleted.
    await durablePool.query("update account set status = 'PENDING' where id = any($1)", unreadable)
    await durablePool.query('delete from account where id = any($1)', unreadable)
  })

  test('skips a row that is locked, and re-encrypts it in a later run', async () => {
    const { id } = await stored(await openAccount('10000000005'))
    const client = await service.database.durablePool.connect()
    await client.query('begin')
    await client.query('select from account where id = $1 for update', [id])
    const table = encryptedAccounts(service.database)
    const next = createEncrypter(OTHER, [MASTER_KEY])
    const page = await table.reEncrypt(next, '', 1_000)
    expect(page).toMatchObject({ skipped: 1, unreadable: [], next: expect.any(String) })
    await client.query('rollback')
    client.release()
    expect(await table.reEncrypt(next, '', 1_000)).toMatchObject({ skipped: 0, reEncrypted: 1 })
    expect(await table.reEncrypt(next, '', 1_000)).toMatchObject({ skipped: 0, reEncrypted: 0 })
    await reEncrypt(
      encryptedTables(service.database),
      createEncrypter(MASTER_KEY, [OTHER]),
      () => {},
    )
  })
})

test('an instance that was suspended encrypts nothing until it has read its keys again', async () => {
  const encrypter = createEncrypter(MASTER_KEY)
  let nowMs = Date.now()
  let reads = 0
  const heartbeat = createKeyHeartbeat({
    instance: { id: 'ins_suspended', version: '0', migration: '', process: 'suspended/1' },
    orm: service.database.orm,
    encrypter,
    tables: [],
    log: createTestRuntime(service.database).log,
    clock: { now: () => nowMs },
    async reread() {
      reads += 1
      return { current: MASTER_KEY, others: [] }
    },
    onFirstKey: async () => undefined,
  })
  onTestFinished(heartbeat.stop)
  await heartbeat.start()
  const before = encrypter.encrypt('text', 'context')
  const readBefore = reads
  nowMs += 40_000
  const unavailable = expect.objectContaining({ reason: 'unavailable' })
  expect(() => encrypter.encrypt('text', 'context')).toThrow(unavailable)
  expect(() => encrypter.fingerprint('text')).toThrow(unavailable)
  expect(() => encrypter.mac('text')).toThrow(unavailable)
  expect(encrypter.decrypt(before, 'context')).toBe('text')
  await vi.waitUntil(
    () => {
      try {
        return encrypter.mac('text')
      } catch {
        return false
      }
    },
    { timeout: WAIT_LIMIT_MS },
  )
  expect(reads).toBeGreaterThan(readBefore)
})

describe('a rotation to a key that a running instance lacks', () => {
  const rotate = () =>
    runHere(['master-key', 'rotate'], {
      DATABASE_URL: service.url,
      MASTER_KEY: toBase64(OTHER),
      MASTER_KEY_PREVIOUS: toBase64(MASTER_KEY),
    })
  const otherId = createEncrypter(OTHER).keyId

  test('is refused, and leaves no key registered that would stop the instance', async () => {
    const { durablePool } = service.database
    const before = await durablePool.query('select id from master_key')
    const refused = await rotate()
    expect(refused.code).toBe(1)
    expect(refused.stderr).toMatch(/1 running instances lack the key .*nothing was changed/)
    expect((await durablePool.query('select id from master_key')).rows).toEqual(before.rows)
    expect(before.rows).not.toContainEqual({ id: otherId })
  })
})

describe('in a data folder', () => {
  let folder: string
  let running: ServiceProcess | undefined
  const start = async () => {
    running = await startProcess({ DATA_DIR: folder, MASTER_KEY: undefined })
    return running
  }
  const read = (name: string) => readFileSync(join(folder, name), 'utf8')

  beforeAll(async () => {
    folder = await makeFolder('rotation')
  })

  afterAll(async () => {
    // Stopped, not killed: a kill would leave its database running.
    await running?.stop()
    await rm(folder, { recursive: true, force: true })
  })

  /** Runs an action while a transaction is open that inserts an account under the current key. It ends while the action waits for it. */
  const whileInserting = <T>(env: NodeJS.ProcessEnv, run: () => Promise<T>) =>
    withDatabase(env, 'must exist', async ({ durablePool }) => {
      const client = await durablePool.connect()
      await client.query('begin; set local idle_in_transaction_session_timeout = 0')
      const { rowCount } = await client.query(
        `insert into account select copy.* from account a,
          jsonb_populate_record(a, jsonb_build_object('id', 'acc_copy', 'reference', 'R-copy',
            'merchant_reference', 'copy', 'account_number', '0000000000', 'id_number_encrypted', null,
            'id_number_hash', null, 'id_type', null, 'details_hash', $1::text)) copy`,
        [`\\x${(await hashWithoutIdentity()).toString('hex')}`],
      )
      expect(rowCount).toBe(1)
      let ended = false
      const running = run().finally(() => {
        ended = true
      })
      const waiting = `select from pg_stat_activity where query like '%pg_snapshot_xmin%' and pid <> pg_backend_pid()`
      await vi.waitUntil(async () => ended || (await durablePool.query(waiting)).rowCount, {
        timeout: WAIT_LIMIT_MS,
        interval: 200,
      })
      await client.query('commit')
      client.release()
      return running
    })
  const hashWithoutIdentity = async () => {
    const { bank, firstName, lastName, email, phone } = creation({
      bank: 'PALMPAY',
    }) as never as AccountDetails
    const details = {
      bank,
      firstName,
      lastName,
      email,
      phone,
      idType: undefined,
      idNumber: undefined,
    }
    const key = Buffer.from(read('master.key').trim(), 'base64')
    return createEncrypter(key).fingerprint(detailsText(details))
  }

  test('the command creates the new key, and a running service reads it', async () => {
    const { httpUrl } = await start()
    const { secret_key: key } = JSON.parse(read('credentials.json'))
    const create = async (at: string) => {
      const body = JSON.stringify(
        creation({ bank: 'PALMPAY', idType: 'nin', idNumber: '1'.repeat(11) }),
      )
      const response = await send(at, { path: GENERATE, headers: asJson(key), body })
      return [response.status, response.headers['idempotent-replayed']]
    }
    expect(await create(httpUrl)).toEqual([200, undefined])
    const before = read('master.key')

    const env = { DATA_DIR: folder }
    const unasked = await runHere(['master-key', 'rotate'], env)
    expect([unasked.code, unasked.stderr]).toEqual([
      2,
      expect.stringMatching(/add --yes\n.* removed once nothing needs it.\n.*keep a copy of it/),
    ])
    expect(read('master.key')).toBe(before)
    const rotated = await whileInserting(env, () => runHere(['master-key', 'rotate', '--yes'], env))
    expect(rotated.code, rotated.stderr).toBe(0)
    expect(rotated.stderr).toMatch(
      /^Created the key ([0-9a-f]{8})\. .*\nRe-encrypting everything with the key \1\.\nWaiting for the running service/,
    )
    expect(rotated.stdout).toMatch(/^[0-9a-f]{8} +current +1 +.*4 in accounts/m)
    expect(read('master.key')).not.toBe(before)
    expect(read('master.key.previous')).toBe('')
    for (const name of ['master.key', 'master.key.previous']) {
      expect(statSync(join(folder, name)).mode & 0o777).toBe(0o600)
    }
    expect(await create(httpUrl)).toEqual([200, 'true'])

    // It is recorded with who ran it, and the audit log is authenticated under the new key.
    const search = ['audit', 'list', '--action', 'master_key.rotate', '--json']
    const { entries } = JSON.parse((await runHere(search, env)).stdout)
    expect(entries).toMatchObject([{ targetKind: 'master_key', authentic: true }])
    expect(entries[0].actor).toMatchObject({
      kind: 'command_line',
      name: `${userInfo().username}@${hostname()}`,
    })
    const verified = await runHere(['audit', 'verify'], env)
    expect(verified.code, verified.stderr).toBe(0)

    // Also without a running service.
    await running?.stop()
    const again = await runHere(['master-key', 'rotate', '--yes'], env)
    expect(again.code, again.stderr).toBe(0)
    const { httpUrl: second } = await start()
    expect(await create(second)).toEqual([200, 'true'])
    await running?.stop()
  })

  test('without a database the command is refused, and creates nothing', async () => {
    const DATA_DIR = join(temporaryFolder(), 'data')
    const refused = await runHere(['master-key', 'rotate'], { DATA_DIR })
    expect(refused.code).toBe(1)
    expect(refused.stderr).toMatch(/^error: there is no database in /)
    expect(existsSync(DATA_DIR)).toBe(false)
  })
})
