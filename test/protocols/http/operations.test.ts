import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { captureLog } from '../../support/captured-log.ts'
import { type Instance, startInstance } from '../../support/instance.ts'
import { byHand, startProxy, type TcpProxy } from '../../support/proxy.ts'
import { ADMIN_TOKEN, useSharedService } from '../../support/service.ts'
import { waitFor } from '../../support/wait-for.ts'
import { allMethods, PROTOCOLS, pathOf } from '../matrix/protocols.ts'
import { asJson, creation, GENERATE, send, until, type WireAnswer } from '../rest/rest.ts'

const service = useSharedService()

const { log, lines } = captureLog('trace')
let wire: TcpProxy
let instance: Instance

beforeAll(async () => {
  wire = await startProxy(service.url, byHand)
  instance = await startInstance(wire.through, {}, log)
})

afterAll(async () => {
  await instance?.close()
  await wire?.block()
})

const get = (path: string) => send(instance.httpUrl, { method: 'GET', path })

/** The response of /readyz that is waited for. */
const readiness = (holds: (answer: WireAnswer) => boolean) => until(() => get('/readyz'), holds)

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
  expect((await readiness(({ status }) => status === 200)).text).toBe('{"status":"ready"}')
  await wire.block()
  expect(await get('/healthz')).toMatchObject({ status: 200 })
  const failed = await readiness((answer) => answer.status === 503)
  expect(failed.text).toBe('{"status":"not ready","reasons":["the database does not respond"]}')
  await wire.unblock()
  await readiness((answer) => answer.status === 200)
})

test('an instance that is older than the schema is not ready', async () => {
  const { durablePool } = service.database
  await durablePool.query(
    "insert into schema_migration (name) values ('Migration20991231000000_next')",
  )
  const newer = '{"status":"not ready","reasons":["the schema is newer than this version"]}'
  await readiness(({ status, text }) => status === 503 && text === newer)
  await durablePool.query("delete from schema_migration where name like '%_next'")
  await readiness((answer) => answer.status === 200)
})

describe('an instance with OPS_PORT and HTTP_INTERNAL=off', () => {
  let apart: Instance

  beforeAll(async () => {
    apart = await startInstance(service.url, { opsPort: 0, httpInternal: false })
  })
  afterAll(() => apart?.close())

  const unknownPath = (requestId: unknown) =>
    `{"status":false,"message":"There is nothing at this path","code":"unknown_path","doc_url":"/docs/errors#unknown_path","request_id":"${requestId}"}`

  test('has metrics and readiness at a port of their own, and nothing else there', async () => {
    const at = (url: string, path: string) => send(url, { method: 'GET', path })
    expect(await at(apart.opsUrl, '/metrics')).toMatchObject({
      status: 200,
      headers: { 'content-type': expect.stringContaining('text/plain') },
      text: expect.stringContaining('inflow_connections{server="ops"} '),
    })
    await waitFor(async () =>
      expect(await at(apart.opsUrl, '/readyz')).toMatchObject({ text: '{"status":"ready"}' }),
    )
    for (const url of [apart.opsUrl, apart.httpUrl]) {
      expect(await at(url, '/healthz')).toMatchObject({ text: '{"status":"ok"}' })
    }
    const elsewhere = [
      await at(apart.httpUrl, '/metrics'),
      await at(apart.httpUrl, '/readyz'),
      await send(apart.opsUrl, { headers: asJson('any'), body: '{}' }),
    ]
    for (const answer of elsewhere) {
      const text = unknownPath(answer.headers['x-request-id'])
      expect(answer).toMatchObject({ status: 404, text })
    }
  })

  test('serves tokens at the gRPC port only: their paths are unknown to HTTP', async () => {
    const methods = await allMethods()
    const statuses = new Map<string, number>()
    for (const method of methods) {
      const path = pathOf(method)
      const headers = asJson(ADMIN_TOKEN)
      const answer = await send(apart.httpUrl, { path, headers, body: '{}' })
      statuses.set(method.parent.name, answer.status)
      if (method.parent.name === 'ThirdPartyService') continue
      const text = unknownPath(answer.headers['x-request-id'])
      expect([path, answer.status, answer.text]).toEqual([path, 404, text])
    }
    expect(statuses.get('ThirdPartyService')).toBe(401)
    const { id } = await service.business()
    const method = BusinessService.method.getBusiness
    const call = { method, request: { businessId: id }, authorization: `Bearer ${ADMIN_TOKEN}` }
    expect(await PROTOCOLS['gRPC from grpc-js']!(apart, call)).toHaveProperty('messages')
  })
})

describe('the log', () => {
  test('has the cause of an internal error, which the caller never sees', async () => {
    const { key } = await service.business()
    const { durablePool } = service.database
    await durablePool.query('alter table transaction rename to transaction_gone')
    const headers = asJson(key)
    const answer = await send(instance.httpUrl, { headers, body: '{"session_id":"x"}' })
    await durablePool.query('alter table transaction_gone rename to transaction')
    expect(answer.status).toBe(500)
    expect(answer.text).not.toContain('relation')
    const { request_id } = JSON.parse(answer.text)
    const line = lines.find((each) => JSON.stringify(each).includes(request_id))
    expect(line).toMatchObject({ reason: 'internal', err: { code: '42P01' } })
  })
})
