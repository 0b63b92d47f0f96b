import pino from 'pino'
import { Registry } from 'prom-client'
import { expect, test } from 'vitest'
import type { ApiRequest } from '../../gen/inflow/business/v1/api_request_pb.ts'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { ThirdPartyService } from '../../gen/inflow/thirdparty/v2/third_party_service_pb.ts'
import type { AnsweredRequest } from '../../src/auth/caller.ts'
import { createRequestLog, type RequestLog } from '../../src/businesses/request-log.ts'
import { newId } from '../../src/core/ids.ts'
import { creation } from '../protocols/rest/rest.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { useService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'

const service = useService()
const list = async (request: object): Promise<readonly ApiRequest[]> =>
  (await service.client(BusinessService).listApiRequests(request)).requests

/** The requests of a business, once so many of them are written. */
async function logged(businessId: string, count: number): Promise<readonly ApiRequest[]> {
  await waitFor(async () => expect((await list({ businessId })).length).toBe(count))
  return list({ businessId })
}

test('requests over every protocol are logged with status, time, key and the id that the caller got', async () => {
  const { id: businessId, key } = await service.business()
  const created = await service.post('generateVirtualAccount', key, creation({ reference: 'one' }))
  expect(created.status).toBe(200)
  const rest = await service.post('getTransaction/', key, { session_id: 'unknown' })
  const connect = service.connectClient(ThirdPartyService, key)
  await connect.getBalance({})
  await expect(service.client(ThirdPartyService, key).getTransaction({})).rejects.toThrow()
  await service.post('getTransaction/', `${key}x`, { session_id: 'unknown' })
  const requests = await logged(businessId, 4)
  // Requests of one millisecond are in no order.
  const find = (wanted: string, path = '') =>
    requests.find(({ protocol, path: at }) => protocol === wanted && at.includes(path))
  const [grpc, overConnect] = [find('grpc'), find('connect')]
  const [missing, first] = [find('rest', 'getTransaction'), find('rest', 'generateVirtualAccount')]
  expect(first).toMatchObject({
    businessId,
    live: true,
    keyId: expect.stringMatching(/^key_/),
    method: 'POST',
    path: '/v2/thirdparty/generateVirtualAccount/',
    protocol: 'rest',
    status: 200,
    requestId: created.headers.get('x-request-id'),
    address: '127.0.0.1',
    code: '',
    body: '',
  })
  expect(missing).toMatchObject({
    path: '/v2/thirdparty/getTransaction/',
    status: 404,
    code: 'not_found',
    error: rest.body.message,
    requestId: rest.body.request_id,
    body: '{"session_id":"unknown"}',
  })
  expect(overConnect).toMatchObject({
    path: '/inflow.thirdparty.v2.ThirdPartyService/GetBalance',
    protocol: 'connect',
    status: 200,
  })
  expect(grpc).toMatchObject({ protocol: 'grpc', status: 422, code: 'validation_failed' })
  expect(grpc!.faults.map(({ field }) => field)).toEqual(['session_id'])
})

test('the body of a failed request has what was wrong, and neither secrets nor identity numbers', async () => {
  const { id: businessId, key } = await service.business()
  const secrets = [
    '22212345678',
    '33312345678',
    '44412345678',
    'hunter2',
    'sk_live_0123abc',
    'Basic Zm9v',
  ]
  const customer = creation({
    reference: 'for 33312345678',
    bank: 'NOBANK',
    idType: 'bvn',
    idNumber: '22212345678',
    otp: '123456',
    unknown: '22212345678',
    metadata: { bvn: '44412345678', note: 'of sk_live_0123abc' },
  })
  await service.post('generateVirtualAccount/', key, customer)
  await service.post('upgradeVirtualAccount/', key, { reference: 'R-1', bvn: '22212345678' })
  await service.post('createWebhook/', key, {
    url: 'ftp://ada:hunter2@example.com/',
    options: { headers: [{ name: 'authorization', value: 'Basic Zm9v' }] },
  })
  await service.post('generateVirtualAccount/', key, { ...customer, idNumber: 22_212_345_678 })
  const requests = await logged(businessId, 4)
  for (const { body, error, faults } of requests) {
    const text = JSON.stringify([body, error, faults])
    for (const secret of [...secrets, '123456"']) expect(text).not.toContain(secret)
  }
  const first = requests.find(({ faults: [fault] }) => fault?.field === 'bank')!
  expect(JSON.parse(first.body)).toMatchObject({ bank: 'NOBANK', phone: customer.phone })
  const { rows } = await service.database.durablePool.query<{ text: string }>(
    'select r::text as text from api_request r',
  )
  for (const secret of [...secrets, key]) {
    expect(rows.filter(({ text }) => text.includes(secret))).toEqual([])
  }
})

interface LogOptions {
  readonly kept?: { readonly rows: number; readonly bytes: number }
  readonly onLine?: () => void
}

/** A log of its own, which writes to the same table. */
function createLog({ kept, onLine }: LogOptions = {}): RequestLog & { counts(): Promise<object> } {
  const metrics = new Registry()
  const log = createRequestLog(
    createTestRuntime(service.database, {
      metrics,
      log: pino({ level: 'warn' }, { write: () => onLine?.() }),
    }),
    kept,
  )
  const counts = async () => {
    const [metric] = await metrics.getMetricsAsJSON()
    return Object.fromEntries(metric!.values.map(({ labels, value }) => [labels['outcome'], value]))
  }
  return { ...log, counts }
}

const request = (businessId: string, more: Partial<AnsweredRequest> = {}): AnsweredRequest => ({
  caller: { businessId, live: true, keyId: 'key_1' },
  path: '/v2/thirdparty/getBalance/',
  protocol: 'rest',
  status: 200,
  durationMs: 3,
  requestId: 'req_1',
  address: '::1',
  ...more,
})

const failure = (bytes: number) => ({
  status: 422,
  failure: { code: 'validation_failed', error: '', faults: [], body: () => 'x'.repeat(bytes) },
})

test('one business that calls too often displaces no other, and what is left out is counted', async () => {
  const log = createLog()
  const [busy, quiet] = [newId('biz', 0), newId('biz', 0)]
  for (let i = 0; i < 300; i++) log.record(request(busy))
  log.record(request(busy, failure(10)))
  log.record(request(quiet))
  await log.stop()
  expect(await log.counts()).toEqual({ dropped: 100, written: 202 })
  expect((await list({ businessId: busy, statusClass: 4 })).length).toBe(1)
  expect((await list({ businessId: quiet })).length).toBe(1)
})

test('a failing database costs requests no time, and those that wait are written when it works again', async () => {
  const { relaxedPool } = service.database
  const businessId = newId('biz', 0)
  let failures = 0
  const log = createLog({ onLine: () => failures++ })
  const rename = (from: string, to: string) =>
    relaxedPool.query(`alter table ${from} rename to ${to}`)
  await rename('api_request', 'api_request_away')
  log.start()
  for (let i = 0; i < 5; i++) log.record(request(businessId))
  await waitFor(() => expect(failures).toBeGreaterThan(0))
  await rename('api_request_away', 'api_request')
  await waitFor(async () => expect((await list({ businessId })).length).toBe(5))
  await log.stop()
})

test('keeps seven days, and of each mode and outcome a bounded number and size', async () => {
  const businessId = newId('biz', 0)
  const log = createLog({ kept: { rows: 20, bytes: 1_000 } })
  const old = { durationMs: 7 * 86_400_000 + 60_000 }
  log.record(request(businessId, old))
  for (let i = 0; i < 50; i++) log.record(request(businessId))
  for (let i = 0; i < 15; i++) log.record(request(businessId, failure(100)))
  await log.stop()
  await log.trim()
  const kept = await list({ businessId, pageSize: 200 })
  expect(kept.filter(({ status }) => status === 200).length).toBe(20)
  expect(kept.filter(({ status }) => status === 422).length).toBe(10)
  expect(Math.max(...kept.map(({ durationMs }) => durationMs))).toBe(3)
})
