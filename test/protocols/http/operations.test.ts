import pino from 'pino'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { MAGIC_PHONES } from '../../../src/banks/sandbox/sandbox.ts'
import { type Instance, startInstance, startWire, type Wire } from '../../support/instance.ts'
import { ADMIN_TOKEN, useService } from '../../support/service.ts'
import { asJson, creation, GENERATE, GET_TRANSACTION, send, until } from '../rest/rest.ts'

const service = useService()

let logged = ''
let wire: Wire
let instance: Instance

beforeAll(async () => {
  wire = await startWire(service.url)
  const log = pino(
    { level: 'trace' },
    {
      write: (line: string) => {
        logged += line
      },
    },
  )
  instance = await startInstance(wire.url, {}, log)
})

afterAll(async () => {
  await instance?.close()
  await wire?.close()
})

const get = (path: string) => send(instance.httpUrl, { method: 'GET', path })

test('calls are counted by method, protocol and code, and timed', async () => {
  const { key } = await service.business()
  const body = JSON.stringify(creation())
  await send(instance.httpUrl, { path: GENERATE, headers: asJson(key), body })
  await send(instance.httpUrl, { headers: asJson(key), body: '{"session_id":"nothing"}' })
  await send(instance.httpUrl, { headers: asJson(), body: '{}' })
  const { headers, text } = await get('/metrics')
  expect(headers['content-type']).toContain('text/plain')
  const rpc = '/inflow.thirdparty.v2.ThirdPartyService'
  for (const [method, outcome] of [
    ['GenerateVirtualAccount', 'ok'],
    ['GetTransaction', 'not_found'],
    ['GetTransaction', 'unauthorized'],
  ]) {
    expect(text).toContain(
      `inflow_rpc_requests_total{method="${rpc}/${method}",protocol="rest",code="${outcome}"} 1\n`,
    )
  }
  expect(text).toContain(
    `inflow_rpc_duration_seconds_count{method="${rpc}/GetTransaction",protocol="rest"} 2\n`,
  )
  expect(text).not.toContain(key)
})

test('/healthz succeeds while the process lives, /readyz while it can serve', async () => {
  expect(await get('/healthz')).toMatchObject({ status: 200, text: '{"status":"ok"}' })
  expect(await get('/readyz')).toMatchObject({ status: 200, text: '{"status":"ready"}' })
  await wire.cut()
  expect(await get('/healthz')).toMatchObject({ status: 200 })
  expect(await get('/readyz')).toMatchObject({
    status: 503,
    text: '{"status":"not ready","reasons":["the database does not respond"]}',
  })
  await wire.mend()
  await until(
    () => get('/readyz'),
    (answer) => answer.status === 200,
  )
})

test('an instance that is older than the schema is not ready', async () => {
  const { pool } = service.database
  await pool.query("insert into schema_migration (name) values ('Migration20991231000000_next')")
  expect(await get('/readyz')).toMatchObject({
    status: 503,
    text: '{"status":"not ready","reasons":["the schema is newer than this version"]}',
  })
  await pool.query("delete from schema_migration where name like '%_next'")
  expect(await get('/readyz')).toMatchObject({ status: 200 })
})

describe('the log', () => {
  test('names a refused call by its request id, and never a secret or a body', async () => {
    const { id, key } = await service.business()
    const secrets = ['22334455667', 'Adaobi', 'private@example.com', '08099998888']
    const [idNumber, firstName, email, phone] = secrets
    const details = { bank: 'PALMPAY', idType: 'bvn', idNumber, firstName, email, phone }
    const call = (path: string, body: unknown, credential = key) =>
      send(instance.httpUrl, { path, headers: asJson(credential), body: JSON.stringify(body) })
    await call(GENERATE, creation(details))
    await call(GENERATE, creation({ ...details, lastName: 'Other' }))
    await call(GENERATE, creation({ ...details, idNumber: `${idNumber}8` }))
    await call(GENERATE, creation({ ...details, reference: 'r', phone: MAGIC_PHONES.refuses }))
    await call(GENERATE, creation({ ...details, reference: 's', phone: MAGIC_PHONES.rejects }))
    await call('/inflow.account.v1.AccountService/ListAccounts', {}, ADMIN_TOKEN)
    await call('/inflow.account.v1.AccountService/ListAccounts', {}, `${ADMIN_TOKEN}wrong`)
    const refused = await call(GET_TRANSACTION, { session_id: 'x' }, `${key}wrong`)

    const lines = logged.split('\n').filter((line) => line !== '')
    const records = lines.map((line) => JSON.parse(line) as Record<string, unknown>)
    const { request_id } = JSON.parse(refused.text)
    expect(records.find((record) => record['request_id'] === request_id)).toMatchObject({
      reason: 'unauthorized',
      protocol: 'rest',
      rpc: '/inflow.thirdparty.v2.ThirdPartyService/GetTransaction',
    })
    const reasons = records
      .filter((record) => record['business_id'] === id && record['reason'] !== undefined)
      .map((each) => each['reason'])
    expect(reasons).toEqual([
      'duplicate_reference',
      'validation_failed',
      'bank_unavailable',
      'validation_failed',
    ])
    for (const secret of [...secrets, key, key.slice(-20), ADMIN_TOKEN]) {
      expect(logged).not.toContain(secret)
    }
  })

  test('has the cause of an internal error, which the caller never sees', async () => {
    const { key } = await service.business()
    const { pool } = service.database
    await pool.query('alter table transaction rename to transaction_gone')
    const headers = asJson(key)
    const answer = await send(instance.httpUrl, { headers, body: '{"session_id":"x"}' })
    await pool.query('alter table transaction_gone rename to transaction')
    expect(answer.status).toBe(500)
    expect(answer.text).not.toContain('relation')
    const { request_id } = JSON.parse(answer.text)
    const line = logged.split('\n').find((each) => each.includes(request_id)) ?? '{}'
    expect(JSON.parse(line)).toMatchObject({ reason: 'internal', err: { code: '42P01' } })
  })

  test('has successful calls only at level debug', async () => {
    const { id, key } = await service.business()
    const before = logged.length
    const body = JSON.stringify(creation())
    expect(
      (await send(instance.httpUrl, { path: GENERATE, headers: asJson(key), body })).status,
    ).toBe(200)
    const lines = logged
      .slice(before)
      .split('\n')
      .filter((line) => line.includes(id))
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      { level: 20, status: 'OK', business_id: id, latency_ms: expect.any(Number) },
    ])
  })
})
