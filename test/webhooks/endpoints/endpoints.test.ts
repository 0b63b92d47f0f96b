import { fromBinary } from '@bufbuild/protobuf'
import { Code } from '@connectrpc/connect'
import { expect, test } from 'vitest'
import { EventSchema } from '../../../gen/inflow/event/v1/event_pb.ts'
import { updateHealth } from '../../../src/webhooks/endpoints/watch-health.ts'
import { createTestRuntime } from '../../support/runtime.ts'
import { addEndpoint, clientOf, useWebhooks } from '../harness.ts'

const harness = useWebhooks()

/** A client of webhooks that send nothing, to public https URLs and an intranet. */
async function setUp() {
  const webhooks = harness.idle({
    allowHttp: false,
    allowedCidrs: ['10.1.0.0/16'],
  })
  const businessId = await harness.business()
  const create = (more: object = {}) =>
    addEndpoint(webhooks, businessId, 'https://example.com/hook', more)
  return { client: clientOf(webhooks), businessId, create }
}

const query = async (text: string, ...values: readonly unknown[]) =>
  (await harness.database.durablePool.query(text, [...values])).rows

test('an endpoint is created, listed newest first by its business alone, and deleted', async () => {
  const { client, businessId } = await setUp()
  const requested = { url: 'https://a.example/', kinds: ['ACCOUNT_CLOSED'], description: 'x' }
  const first = await client.createEndpoint({ businessId, ...requested })
  const second = await client.createEndpoint({ businessId, url: 'https://b.example/' })
  expect(first.secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
  expect(first.endpoint).toMatchObject({ businessId, ...requested, concurrency: 10, status: 1 })
  expect(first.endpoint?.id).toMatch(/^ep_[0-9a-z]{26}$/)
  const list = async (of = businessId) => {
    return (await client.listEndpoints({ businessId: of })).endpoints
  }
  expect(await list()).toEqual([second.endpoint, first.endpoint])
  expect(await list(await harness.business())).toEqual([])
  await client.deleteEndpoint({ endpointId: first.endpoint!.id })
  expect(await list()).toEqual([second.endpoint])
})

test('an unknown business, and an unknown or deleted endpoint, is not found', async () => {
  const { client, create } = await setUp()
  const { id: endpointId } = await create()
  await client.deleteEndpoint({ endpointId })
  const url = 'https://example.com/'
  for (const call of [
    () => client.createEndpoint({ businessId: 'biz_none', url }),
    () => client.updateEndpoint({ endpointId: 'ep_none', url }),
    () => client.deleteEndpoint({ endpointId }),
    () => client.updateEndpoint({ endpointId, url }),
    () => client.rotateSecret({ endpointId }),
    () => client.sendTestEvent({ endpointId }),
    () => client.recover({ endpointId, since: { seconds: 0n } }),
  ])
    await expect(call()).rejects.toMatchObject({ code: Code.NotFound })
})

test.each([
  [{ url: 'http://example.com/' }, 'url'],
  [{ url: 'https://10.2.0.1/' }, 'url'],
  [{ url: 'https://a:b@example.com/' }, 'url'],
  [{ kinds: ['ACCOUNT_CLOSED', 'PAYMENT_NOTIFICATON'] }, 'kinds[1]'],
  [{ kinds: ['ACCOUNT_CLOSED', 'PAYMENT_UNMATCHED'] }, 'kinds[1]'],
])('an endpoint can neither be created with %j nor changed to it', async (wrong, field) => {
  const { client, businessId } = await setUp()
  const url = 'https://10.1.0.1/'
  const refusal = { code: Code.InvalidArgument, rawMessage: `Invalid request: ${field}` }
  await expect(client.createEndpoint({ businessId, url, ...wrong })).rejects.toMatchObject(refusal)
  const { endpoint } = await client.createEndpoint({ businessId, url })
  const update = { endpointId: endpoint!.id, description: 'changed', ...wrong }
  await expect(client.updateEndpoint(update)).rejects.toMatchObject(refusal)
  expect((await client.listEndpoints({ businessId })).endpoints).toEqual([endpoint])
})

test('a business has at most 50 endpoints in each mode, even if many are created at once', async () => {
  const { client, businessId, create } = await setUp()
  for (let count = 0; count < 45; count++) await create()
  const results = await Promise.allSettled(Array.from({ length: 15 }, () => create()))
  const faults = results.flatMap((result) => (result.status === 'rejected' ? [result.reason] : []))
  expect(faults.map(({ code }) => code)).toEqual(Array(10).fill(Code.ResourceExhausted))
  const { endpoints } = await client.listEndpoints({ businessId })
  expect(endpoints).toHaveLength(50)
  await create({ live: false })
  await client.deleteEndpoint({ endpointId: endpoints[0]!.id })
  await create()
})

test('a business that replaces its endpoints again and again has at most 1,000 with the deleted', async () => {
  const { client, businessId, create } = await setUp()
  const { id: endpointId } = await create()
  await client.deleteEndpoint({ endpointId })
  await query(
    `insert into webhook_endpoint
      select (jsonb_populate_record(e, jsonb_build_object('id', 'ep_again_' || n))).*
      from webhook_endpoint e, generate_series(1, 998) n where e.id = $1`,
    endpointId,
  )
  await create()
  await expect(create()).rejects.toMatchObject({ code: Code.ResourceExhausted })
  expect((await client.listEndpoints({ businessId })).endpoints).toHaveLength(1)
})

test('an update changes the given fields and keeps the others', async () => {
  const { client, businessId } = await setUp()
  const first = { url: 'https://a.example/', kinds: ['ACCOUNT_CLOSED'], description: 'first' }
  const { endpoint: made } = await client.createEndpoint({ businessId, ...first })
  const kinds = ['PAYMENT_REVERSED', 'ENDPOINT_TEST']
  const steps = [
    [{ url: 'https://b.example/' }, { url: 'https://b.example/' }],
    [{ kinds }, { kinds }],
    [{ allKinds: true }, { kinds: [] }],
    [{ description: '' }, { description: '' }],
    [{ concurrency: 3 }, { concurrency: 3 }],
    [{ enabled: false }, { status: 2, disabledReason: 1 }],
    [{ enabled: true }, { status: 1, disabledReason: 0 }],
    [{}, {}],
    [{ kinds }, { kinds }],
    [{ url: 'https://b.example/', kinds, description: '', concurrency: 3, enabled: true }, {}],
  ]
  let expected: object = { ...first, businessId }
  for (const [change, effect] of steps) {
    expected = { ...expected, ...effect }
    const { endpoint } = await client.updateEndpoint({ endpointId: made!.id, ...change })
    expect(endpoint).toMatchObject(expected)
    expect((await client.listEndpoints({ businessId })).endpoints).toEqual([endpoint])
  }
  // The audit log has no entry for a repeat that changes nothing.
  const entries = await query(
    "select details from audit_entry where action = 'endpoint.update' and target_id = $1",
    made!.id,
  )
  expect(entries).toHaveLength(steps.length - 2)
})

const secretsOf = (endpointId: string) =>
  query(
    `select number, expires_at is null as "isLast" from webhook_secret
      where endpoint_id = $1 order by number`,
    endpointId,
  )

test('concurrent rotations give each secret its own number, and one never expires', async () => {
  const { client, create } = await setUp()
  const { id: endpointId } = await create()
  await Promise.all([1, 2, 3, 4].map(() => client.rotateSecret({ endpointId })))
  expect(await secretsOf(endpointId)).toEqual(
    [1, 2, 3, 4, 5].map((number) => ({ number, isLast: number === 5 })),
  )
})

test('a failure is judged once by many instances, and not of the URL before a change', async () => {
  const { client, businessId, create } = await setUp()
  const { id: endpointId } = await create()
  const [{ url }] = await query('select url from webhook_endpoint where id = $1', endpointId)
  const health = { failingSinceMs: null, warnedAtMs: null }
  const judge = () => {
    const failure = { endpointId, url, status: 410, health }
    return updateHealth(createTestRuntime(harness.database), failure)
  }
  await client.updateEndpoint({ endpointId, url: 'https://moved.example/' })
  await judge()
  expect((await client.listEndpoints({ businessId })).endpoints).toMatchObject([{ status: 1 }])
  await client.updateEndpoint({ endpointId, url })
  await Promise.all([judge(), judge(), judge()])
  expect((await client.listEndpoints({ businessId })).endpoints).toMatchObject([
    { status: 2, disabledReason: 2 },
  ])
  const events = await query('select kind, payload from outbox where subject_id = $1', endpointId)
  expect(events).toMatchObject([{ kind: 'ENDPOINT_DISABLED' }])
  // Other receivers get it: its path may be a secret.
  const { payload } = fromBinary(EventSchema, events[0].payload)
  expect(payload.value).toMatchObject({ id: endpointId, url: 'https://example.com' })
})
