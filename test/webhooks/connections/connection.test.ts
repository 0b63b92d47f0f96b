import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { describe, expect, test } from 'vitest'
import { EndpointOptionsSchema } from '../../../gen/inflow/webhook/v1/endpoint_options_pb.ts'
import { changeFaults } from '../../../src/webhooks/connections/apply-connection.ts'
import { toRequestedOptions } from '../../../src/webhooks/connections/message.ts'
import { createAddressGuard } from '../../../src/webhooks/sender/address-guard.ts'
import { paymentEvent } from '../fixture.ts'
import { clientOf, useWebhooks } from '../harness.ts'

const harness = useWebhooks()

type Options = MessageInitShape<typeof EndpointOptionsSchema>

const HEADERS = [
  { name: 'X-Gateway-Key', value: 'header-s3cret' },
  { name: 'x-tenant', value: 'shop' },
]
const BASIC = { case: 'basic', value: { username: 'inflow', password: 'pass: wørd' } } as const
const OPTIONS = { headers: { headers: HEADERS }, authentication: { method: BASIC } }
const AUTHORIZATION = `Basic ${Buffer.from('inflow:pass: wørd').toString('base64')}`
const NONE = {
  headers: { headers: [] },
  authentication: { method: { case: undefined } },
} satisfies MessageInitShape<typeof EndpointOptionsSchema>

/** An endpoint with headers and basic authentication, at a receiver. */
async function setUp(options: Options = OPTIONS) {
  const webhooks = harness.started()
  const client = clientOf(webhooks)
  const receiver = await harness.receiver()
  const businessId = await harness.business()
  const { endpoint } = await client.createEndpoint({ businessId, url: receiver.url, options })
  const endpointId = endpoint!.id
  const publish = () => harness.publish(paymentEvent(businessId))
  return { client, receiver, businessId, endpointId, publish, endpoint: endpoint! }
}

describe('the options of an endpoint', () => {
  test('are sent with every request, and shown without their secrets, which are encrypted', async () => {
    const { client, receiver, publish, businessId, endpoint, endpointId } = await setUp()
    await publish()
    expect((await receiver.next()).headers).toMatchObject({
      'x-gateway-key': 'header-s3cret',
      'x-tenant': 'shop',
      authorization: AUTHORIZATION,
      'content-type': 'application/json',
      'webhook-signature': expect.stringMatching(/^v1,/),
    })
    expect(endpoint.options).toMatchObject({
      headerNames: ['X-Gateway-Key', 'x-tenant'],
      authentication: { case: 'basicUsername', value: 'inflow' },
    })
    const { endpoints } = await client.listEndpoints({ businessId })
    expect(endpoints).toEqual([endpoint])
    await client.updateEndpoint({ endpointId, options: OPTIONS })
    const rotated = await client.rotateSecret({ endpointId })
    expect(rotated.endpoint?.options).toEqual(endpoint.options)
    const { durablePool } = harness.database
    for (const table of ['webhook_endpoint', 'audit_entry', 'outbox']) {
      const { rows } = await durablePool.query(`select t::text as text from ${table} t`)
      const stored = rows.map(({ text }) => text).join('\n')
      for (const secret of ['header-s3cret', 'wørd', AUTHORIZATION]) {
        expect(stored).not.toContain(secret)
        expect(stored).not.toContain(Buffer.from(secret).toString('hex'))
      }
    }
    await client.deleteEndpoint({ endpointId })
    const { rows } = await durablePool.query(
      'select from webhook_endpoint where connection_encrypted is not null',
    )
    expect(rows).toEqual([])
  })

  test('are kept by an update that does not state them, replaced and removed by one that does', async () => {
    const { client, receiver, endpointId, publish } = await setUp()
    const sent = async () => {
      await publish()
      const { headers } = await receiver.next()
      return [headers['x-gateway-key'], headers['x-other'], headers.authorization]
    }
    const steps: readonly (readonly [Options, unknown])[] = [
      [{}, ['header-s3cret', undefined, AUTHORIZATION]],
      [
        { headers: { headers: [{ name: 'x-other', value: '1' }] } },
        [undefined, '1', AUTHORIZATION],
      ],
      [{ authentication: NONE.authentication }, [undefined, '1', undefined]],
      [{ headers: NONE.headers }, [undefined, undefined, undefined]],
      [OPTIONS, ['header-s3cret', undefined, AUTHORIZATION]],
    ]
    for (const [options, expected] of steps) {
      await client.updateEndpoint({ endpointId, description: 'x', options })
      expect(await sent()).toEqual(expected)
    }
  })

  test('are sent to no other origin than that of their URL', async () => {
    const { client, receiver, endpointId, publish } = await setUp()
    const other = await harness.receiver()
    const move = (options: Options) =>
      client.updateEndpoint({ endpointId, url: other.url, options })
    await expect(move({})).rejects.toMatchObject({ rawMessage: 'Invalid request: url' })
    await expect(move({ headers: NONE.headers })).rejects.toThrow('url')
    await publish()
    expect((await receiver.next()).headers.authorization).toBe(AUTHORIZATION)
    // Another path of the same origin keeps them.
    await client.updateEndpoint({ endpointId, url: `${receiver.url}/other` })
    await publish()
    expect(await receiver.next()).toMatchObject({
      path: '/other',
      headers: { authorization: AUTHORIZATION },
    })
    await move({ ...NONE, headers: { headers: [{ name: 'x-other', value: '1' }] } })
    await publish()
    const { headers } = await other.next()
    expect([headers['x-other'], headers['x-gateway-key'], headers.authorization]).toEqual([
      '1',
      undefined,
      undefined,
    ])
  })
})

const RULES = { allowHttp: false, guard: createAddressGuard([]) }

describe('options are refused', () => {
  const header = (name: string, value = 'x') => ({
    headers: { headers: [{ name, value }] },
  })
  const basic = (username: string, password: string) => ({
    authentication: { method: { case: 'basic' as const, value: { username, password } } },
  })
  const NAME = 'options.headers.headers[0].name'
  test.each<[string, Options, string]>([
    ['a header of the signature', header('Webhook-Signature'), NAME],
    ['a header of existing receivers', header('x-wiaxy-signature-256'), NAME],
    ['the length of the body', header('Content-Length', '0'), NAME],
    ['the host', header('HOST'), NAME],
    ['a header of the connection', header('transfer-encoding', 'chunked'), NAME],
    ['a header for a proxy', header('proxy-authorization'), NAME],
    ['a name that is not one', header('x y'), NAME],
    ['a second header in a value', header('x', 'a\r\nb: c'), 'options.headers.headers[0].value'],
    ['a value that is not ASCII', header('x', 'é'), 'options.headers.headers[0].value'],
    [
      'a repeated name',
      {
        headers: { headers: [...header('x-a').headers.headers, ...header('X-A').headers.headers] },
      },
      'options.headers.headers[1].name',
    ],
    [
      'too many characters',
      {
        headers: {
          headers: Array.from({ length: 5 }, (_, index) => ({
            name: `x-${index}`,
            value: 'x'.repeat(2_000),
          })),
        },
      },
      'options.headers.headers',
    ],
    ['a colon in a user name', basic('a:b', 'c'), 'options.authentication.basic.username'],
    ['a line break in a password', basic('a', 'b\nc'), 'options.authentication.basic.password'],
  ])('for %s', (_what, options, field) => {
    const { connection } = toRequestedOptions(create(EndpointOptionsSchema, options))
    const faults = changeFaults(connection, RULES, Date.now())
    expect(faults.map((fault) => fault.field)).toEqual([field])
  })

  test('for two authorizations, at once or one after the other', async () => {
    const { client, endpointId } = await setUp(header('authorization', 'Bearer x'))
    const update = (options: Options) => client.updateEndpoint({ endpointId, options })
    await expect(update(basic('a', 'b'))).rejects.toThrow(NAME)
    await expect(update({ ...header('Authorization'), ...basic('a', 'b') })).rejects.toThrow(NAME)
    await update({ ...NONE, ...basic('a', 'b') })
  })

  test('by each rpc, and nothing is changed', async () => {
    const { client, businessId, endpointId, endpoint, receiver } = await setUp({})
    const options = header('host')
    const refusal = { rawMessage: `Invalid request: ${NAME}` }
    const update = client.updateEndpoint({ endpointId, description: 'changed', options })
    await expect(update).rejects.toMatchObject(refusal)
    const created = client.createEndpoint({ businessId, url: receiver.url, options })
    await expect(created).rejects.toMatchObject(refusal)
    expect((await client.listEndpoints({ businessId })).endpoints).toEqual([endpoint])
  })
})
