import { randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, expect, test } from 'vitest'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { detailsText, identityContext, identityText } from '../../src/accounts/account.ts'
import { verifyWebhook } from '../../src/client/verify-webhook.ts'
import { newId } from '../../src/core/ids.ts'
import { createEncrypter } from '../../src/crypto/encryption.ts'
import { outcomeOf, startInflow } from '../cli/run-inflow.ts'
import { creation, until } from '../protocols/rest/rest.ts'
import { useDatabase } from '../support/database.ts'
import { type ServiceProcess, startProcess } from '../support/process.ts'
import { postRest } from '../support/service.ts'
import { client, startHttpsReceiver } from './scene.ts'

/** Eight pages of a rotation. */
const ACCOUNTS = 4_000

/** Of a caller between two creations. */
const PAUSE_MS = 100

const [OLD, NEW] = [randomBytes(32), randomBytes(32)]
const toBase64 = (key: Buffer) => key.toString('base64')
const oldEncrypter = createEncrypter(OLD)
const newEncrypter = createEncrypter(NEW)

const db = useDatabase()
const running = new Set<ServiceProcess>()

afterAll(() => Promise.all([...running].map((instance) => instance.kill())))

async function stop(instance: ServiceProcess): Promise<void> {
  await instance.stop()
  running.delete(instance)
}

/** Runs the command in its own process. `killAfter`: SIGKILL at that many re-encrypted accounts. */
async function rotate(verb: 'rotate' | 'status', killAfter = Number.POSITIVE_INFINITY) {
  const running = startInflow(['master-key', verb], {
    env: {
      DATABASE_URL: db.url,
      MASTER_KEY: toBase64(NEW),
      MASTER_KEY_PREVIOUS: toBase64(OLD),
      NO_COLOR: '1',
    },
  })
  const outcome = outcomeOf(running)
  if (killAfter !== Number.POSITIVE_INFINITY) {
    await until(countReEncrypted, (count) => count >= killAfter)
    running.child.kill('SIGKILL')
  }
  return outcome
}

async function countReEncrypted(): Promise<number> {
  const { rows } = await db.database.durablePool.query(
    'select count(*)::int as count from account where substr(id_number_encrypted, 1, 5) = $1',
    [newEncrypter.head],
  )
  return rows[0].count
}

/** Many accounts with identity numbers under the key that is replaced. */
async function insertOldAccounts(businessId: string): Promise<void> {
  const rows = Array.from({ length: ACCOUNTS }, (_, index) => {
    const id = newId('acc', 1_700_000_000_000 + index)
    const idNumber = `${10_000_000_000 + index}`
    const details = {
      bank: 'PALMPAY',
      firstName: 'Ada',
      lastName: 'Obi',
      email: 'ada@example.com',
      phone: '08012345678',
      idType: 'nin',
      idNumber,
    } as const
    const hash = oldEncrypter.fingerprint(detailsText(details))
    const idHash = oldEncrypter.fingerprint(identityText('nin', idNumber))
    const encrypted = oldEncrypter.encrypt(idNumber, identityContext(id))
    return { id, number: `T${String(index).padStart(9, '0')}`, encrypted, idHash, hash, at: index }
  })
  await db.database.durablePool.query(
    `insert into account (id, business_id, live, reference, merchant_reference, bank, account_number,
        account_name, status, first_name, last_name, email, phone, id_type, id_number_encrypted,
        id_number_hash, details_hash, attempts, claimed_until, created_at)
      select id, $1, true, 'R-' || id, 'old-' || at, 'PALMPAY', number, 'Acme/Ada Obi', 'ACTIVE', 'Ada',
        'Obi', 'ada@example.com', '08012345678', 'nin', decode(encrypted, 'hex'),
        decode(id_hash, 'hex'), decode(hash, 'hex'), 1, now(), now()
      from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::int[])
        as r(id, number, encrypted, id_hash, hash, at)`,
    [
      businessId,
      rows.map((row) => row.id),
      rows.map((row) => row.number),
      rows.map((row) => row.encrypted.toString('hex')),
      rows.map((row) => row.idHash.toString('hex')),
      rows.map((row) => row.hash.toString('hex')),
      rows.map((row) => row.at),
    ],
  )
}

/** A rotation waits for a row that is locked: it does not end before it is killed. */
async function lockLastAccount() {
  const client = await db.database.durablePool.connect()
  await client.query('begin; set local idle_in_transaction_session_timeout = 0')
  await client.query('select from account where merchant_reference = $1 for update', [
    `old-${ACCOUNTS - 1}`,
  ])
  return {
    async release() {
      await client.query('rollback')
      client.release()
    },
  }
}

const palmpay = (reference: string, idNumber: string) =>
  creation({ reference, bank: 'PALMPAY', idType: 'nin', idNumber })

async function create(instance: ServiceProcess, key: string, body: object) {
  const answer = await postRest(instance.httpUrl, key, 'generateVirtualAccount/', body)
  return { status: answer.status, replayed: answer.headers.get('idempotent-replayed') === 'true' }
}

/** Opens accounts at all instances until stopped, and expects no failure. */
function keepCreating(instances: () => readonly ServiceProcess[], key: string) {
  const made: string[] = []
  const failed: unknown[] = []
  let stopped = false
  const lane = async (lane: number): Promise<void> => {
    for (let n = 0; !stopped; n++) {
      const all = instances()
      const reference = `new-${lane}-${n}`
      const idNumber = `${20_000_000_000 + lane * 1_000_000 + n}`
      const response = await create(all[n % all.length]!, key, palmpay(reference, idNumber))
      if (response.status === 200) made.push(JSON.stringify({ reference, idNumber }))
      // A caller repeats what a busy database did not serve.
      else if (response.status !== 503) failed.push(response)
      await pause(PAUSE_MS)
    }
  }
  const lanes = [0, 1].map(lane)
  return {
    made,
    async stop() {
      stopped = true
      await Promise.all(lanes)
      expect(failed).toEqual([])
    },
  }
}

test('rotates a master key under load, although the rotation is killed twice', async () => {
  const { receiver, environment } = await startHttpsReceiver()
  const start = async (current: Buffer, previous: readonly Buffer[] = []) => {
    const keys = {
      MASTER_KEY: toBase64(current),
      MASTER_KEY_PREVIOUS: previous.map(toBase64).join(),
    }
    const instance = await startProcess({ ...environment, ...keys, DATABASE_URL: db.url })
    running.add(instance)
    return instance
  }

  // Phase 0: only the old key.
  let [one, two] = await Promise.all([start(OLD), start(OLD)])
  const { business, secretKey: key } = await client(BusinessService, one).createBusiness({
    name: 'Acme',
  })
  await insertOldAccounts(business!.id)
  const { secret } = await client(WebhookService, one).createEndpoint({
    businessId: business!.id,
    url: receiver.url,
    kinds: ['ACCOUNT_CREATED'],
  })
  expect(await create(one, key, palmpay('before', '33333333333'))).toMatchObject({ status: 200 })

  // A rotation before the instances know the key is refused, and changes nothing.
  const early = await rotate('rotate')
  expect(early).toMatchObject({ code: 1, stdout: '' })
  expect(early.stderr).toMatch(
    /^error: 2 running instances lack the key [0-9a-f]{8}: nothing was changed/m,
  )

  // Phase 1: every instance knows the new key. Phase 2: it is the current key of the first.
  await Promise.all([stop(one), stop(two)])
  ;[one, two] = await Promise.all([start(NEW, [OLD]), start(OLD, [NEW])])
  const load = keepCreating(() => [one, two], key)

  // Phase 3, killed twice, while one instance still encrypts with the old key.
  const last = await lockLastAccount()
  expect(await rotate('rotate', 500)).toMatchObject({ code: null })
  const killedAt = await countReEncrypted()
  expect(killedAt).toBeLessThan(ACCOUNTS)
  // The last page waits for the lock.
  const next = Math.min(killedAt + 500, ACCOUNTS - 500)
  expect(await rotate('rotate', next)).toMatchObject({ code: null })
  await last.release()
  const third = await rotate('rotate')
  expect(third.code, third.stderr).toBe(1)
  expect(third.stderr).toMatch(/still encrypt with|not encrypted with the current key/)
  await load.stop()
  await stop(two)
  two = await start(NEW, [OLD])
  const late = keepCreating(() => [one, two], key)
  const done = await rotate('rotate')
  await late.stop()
  expect(done.code, done.stderr).toBe(0)

  // Phase 4: no value is left under the old key.
  const status = await rotate('status')
  expect(status.code, status.stderr).toBe(0)
  expect(status.stdout).toMatch(new RegExp(`^${newEncrypter.keyId} +current`, 'm'))
  expect(status.stdout).toMatch(new RegExp(`^${oldEncrypter.keyId} +may be removed`, 'm'))
  await expectOnlyNewKey()

  // Without the old key, repeated requests are recognized, and secrets still sign.
  await Promise.all([stop(one), stop(two)])
  one = await start(NEW)
  const repeated = ['before', 'old-0', `old-${ACCOUNTS - 1}`]
  const numbers = ['33333333333', '10000000000', `${10_000_000_000 + ACCOUNTS - 1}`]
  for (const [index, reference] of repeated.entries()) {
    const body = palmpay(reference, numbers[index]!)
    expect(await create(one, key, body)).toEqual({ status: 200, replayed: true })
    expect(await create(one, key, { ...body, lastName: 'Bello' })).toMatchObject({ status: 409 })
  }
  expect(load.made.length).toBeGreaterThan(10)
  for (const text of [...load.made.slice(0, 50), ...load.made.slice(-50)]) {
    const { reference, idNumber } = JSON.parse(text)
    expect(await create(one, key, palmpay(reference, idNumber))).toEqual({
      status: 200,
      replayed: true,
    })
  }
  const { requests } = receiver
  const sent = requests.length
  expect(await create(one, key, palmpay('after', '44444444444'))).toMatchObject({ status: 200 })
  await until(
    async () => requests.length,
    (count) => count > sent,
  )
  for (const { headers, rawBody, at } of requests) {
    expect(verifyWebhook(rawBody, headers, secret, { now: () => at })).toMatchObject({ ok: true })
  }
})

async function expectOnlyNewKey(): Promise<void> {
  const { rows } = await db.database.durablePool.query(
    'select id, id_number_encrypted, id_number_hash, details_hash from account',
  )
  expect(rows.length).toBeGreaterThan(ACCOUNTS)
  const isNew = (bytes: Buffer) => bytes.subarray(0, 5).equals(newEncrypter.head)
  for (const row of rows) {
    const all = [row.id_number_encrypted, row.id_number_hash, row.details_hash].every(isNew)
    if (!all) expect(row).toBe('encrypted with the new key')
    expect(newEncrypter.decrypt(row.id_number_encrypted, identityContext(row.id))).toMatch(
      /^\d{11}$/,
    )
  }
  const secrets = await db.database.durablePool.query('select secret_encrypted from webhook_secret')
  expect(secrets.rows.every((row) => isNew(row.secret_encrypted))).toBe(true)
  const keys = await db.database.durablePool.query('select id from master_key')
  expect(keys.rows).toEqual([{ id: newEncrypter.keyId }])
}
