import { create } from '@bufbuild/protobuf'
import { Code, ConnectError } from '@connectrpc/connect'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ListEndpointsRequestSchema } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { Fault } from '../../../src/core/errors.ts'
import type { Database } from '../../../src/postgres/orm.ts'
import { toConnectError } from '../../../src/server/rpc/status.ts'
import type { Webhooks } from '../../../src/webhooks/webhooks.ts'
import { useDatabase } from '../../support/database.ts'
import { asOperator } from '../../support/operator.ts'
import { addBusiness, openWebhooks } from '../fixture.ts'

const db = useDatabase()
let database: Database
let webhooks: Webhooks

beforeAll(() => {
  database = db.database
  webhooks = openWebhooks(database, { allowHttp: false, allowedCidrs: [] })
})
afterAll(async () => {
  await webhooks.stop()
})

const requested = {
  url: 'https://example.com/hook',
  kinds: ['PAYMENT_NOTIFICATION'],
  description: 'x',
}
const createEndpoint = (request: object) =>
  webhooks.rpc.createEndpoint({ ...requested, ...request } as never, asOperator)
const listEndpoints = (businessId: string) =>
  webhooks.rpc.listEndpoints(create(ListEndpointsRequestSchema, { businessId }), asOperator)
const deleteEndpoint = (endpointId: string) =>
  webhooks.rpc.deleteEndpoint({ endpointId } as never, asOperator)

async function faultOf(call: Promise<unknown> | unknown): Promise<Fault> {
  try {
    await call
  } catch (error) {
    if (error instanceof Fault) return error
    throw error
  }
  throw new Error('there was no fault')
}

test('an endpoint is created, listed newest first, and deleted', async () => {
  const businessId = await addBusiness(database)
  const first = await createEndpoint({ businessId })
  const second = await createEndpoint({ businessId, kinds: [], description: '' })
  expect(first.secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
  expect(first.endpoint).toMatchObject({ businessId, ...requested })
  expect(first.endpoint?.id).toMatch(/^ep_[0-9a-z]{26}$/)
  expect(first.endpoint?.createdAt?.seconds).toBeGreaterThan(0n)
  const listed = await listEndpoints(businessId)
  expect(listed.endpoints?.map((endpoint) => endpoint.id)).toEqual([
    second.endpoint?.id,
    first.endpoint?.id,
  ])
  await deleteEndpoint(first.endpoint!.id!)
  expect((await listEndpoints(businessId)).endpoints).toHaveLength(1)
})

test('another business cannot see it', async () => {
  await createEndpoint({ businessId: await addBusiness(database) })
  expect((await listEndpoints(await addBusiness(database))).endpoints).toEqual([])
})

test('the secret is not readable in the database', async () => {
  const { secret, endpoint } = await createEndpoint({ businessId: await addBusiness(database) })
  const { rows } = await database.durablePool.query(
    'select secret_encrypted, s::text as row from webhook_secret s where endpoint_id = $1',
    [endpoint!.id],
  )
  expect(rows[0].row).not.toContain(secret!.slice(6))
  expect(rows[0].secret_encrypted.includes(Buffer.from(secret!.slice(6), 'base64'))).toBe(false)
})

test('an unknown business is not_found', async () => {
  expect((await faultOf(createEndpoint({ businessId: 'biz_none' }))).reason).toBe('not_found')
})

test('an unknown or deleted endpoint is not_found', async () => {
  const { endpoint } = await createEndpoint({ businessId: await addBusiness(database) })
  await deleteEndpoint(endpoint!.id!)
  expect((await faultOf(deleteEndpoint(endpoint!.id!))).reason).toBe('not_found')
  expect((await faultOf(deleteEndpoint('ep_none'))).reason).toBe('not_found')
})

test.each([
  'http://example.com/',
  'https://10.0.0.1/',
  'https://a:b@example.com/',
  'https://[::1]/',
])('the URL %s is validation_failed on url', async (url) => {
  const fault = await faultOf(createEndpoint({ businessId: await addBusiness(database), url }))
  expect(fault.reason).toBe('validation_failed')
  expect(fault.fields).toEqual([{ field: 'url', message: expect.stringContaining('must') }])
  const error = toConnectError(fault, 'req_1')
  expect(error).toBeInstanceOf(ConnectError)
  expect(error.code).toBe(Code.InvalidArgument)
})

test('a business has at most 50 endpoints, even if many are created at once', async () => {
  const businessId = await addBusiness(database)
  for (let count = 0; count < 45; count++) await createEndpoint({ businessId })
  const results = await Promise.allSettled(
    Array.from({ length: 15 }, async () => createEndpoint({ businessId })),
  )
  const faults = results.flatMap((result) => (result.status === 'rejected' ? [result.reason] : []))
  expect(faults.map((fault) => fault.reason)).toEqual(Array(10).fill('too_many_endpoints'))
  const { endpoints } = await listEndpoints(businessId)
  expect(endpoints).toHaveLength(50)
  await deleteEndpoint(endpoints![0]!.id!)
  await createEndpoint({ businessId })
})
