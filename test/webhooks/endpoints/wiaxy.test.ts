import { createHmac } from 'node:crypto'
import { create } from '@bufbuild/protobuf'
import { createValidator } from '@bufbuild/protovalidate'
import { Code } from '@connectrpc/connect'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { EndpointProfile, LegacySignature } from '../../../gen/inflow/webhook/v1/endpoint_pb.ts'
import { CreateEndpointRequestSchema } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import type { ReceivedRequest } from '../../support/receiver.ts'
import { paymentEvent } from '../fixture.ts'
import { addEndpoint, clientOf, useWebhooks } from '../harness.ts'

const harness = useWebhooks()

const [TEXT, NEXT] = ['the text of the receiver', 'the text after the rotation']

const WIAXY = { profile: EndpointProfile.WIAXY, textSecret: TEXT }

const isSignedWith = ({ headers, rawBody }: ReceivedRequest, text: string): boolean =>
  createHmac('sha256', text).update(`${headers['x-wiaxy-timestamp']}.${rawBody}`).digest('hex') ===
  headers['x-wiaxy-signature-256']

/** A started dispatcher with an endpoint, and what it receives. */
async function setUp(endpoint: Parameters<typeof addEndpoint>[3] = {}) {
  const webhooks = harness.started()
  const client = clientOf(webhooks)
  const peer = await harness.receiver()
  const business = await harness.business()
  const added = await addEndpoint(webhooks, business, peer.url, { ...WIAXY, ...endpoint })
  return {
    client,
    business,
    peer,
    endpointId: added.id,
    secret: added.secret,
    next: async () => {
      await harness.publish(paymentEvent(business))
      return peer.next()
    },
    tested: async () => {
      await client.sendTestEvent({ endpointId: added.id })
      return peer.next()
    },
  }
}

test('a text that was imported is not returned; one that was generated is, once', async () => {
  const { client, business, endpointId, secret, next } = await setUp()
  expect(secret).toBe('')
  expect(isSignedWith(await next(), TEXT)).toBe(true)
  const url = 'http://127.0.0.1:9/generated'
  const { profile } = WIAXY
  const created = await client.createEndpoint({ businessId: business, url, profile })
  expect(created.secret).toMatch(/^[0-9a-f]{48}$/)
  const { endpoints } = await client.listEndpoints({ businessId: business })
  expect(endpoints.find(({ id }) => id === endpointId)).toMatchObject({
    profile: EndpointProfile.WIAXY,
    kinds: ['PAYMENT_NOTIFICATION'],
    wiaxyHeaders: false,
    secrets: [{ next: false }],
    legacySignature: 0,
    eventName: '',
    payerAsArray: false,
  })
  expect(JSON.stringify(endpoints, (_, value) => `${value}`)).not.toContain(TEXT)
})

test('a new text signs test events alone until the switch, and everything after it', async () => {
  const { client, endpointId, next, tested } = await setUp()
  expect(isSignedWith(await tested(), TEXT)).toBe(true)
  const rotated = await client.rotateSecret({ endpointId, textSecret: 'a text that never signs' })
  expect(rotated.endpoint?.secrets).toMatchObject([{ next: true }, { next: false }])
  const again = await client.rotateSecret({ endpointId, textSecret: NEXT })
  expect([again.secret, again.endpoint?.secrets.length]).toEqual(['', 2])
  expect(isSignedWith(await next(), TEXT)).toBe(true)
  expect(isSignedWith(await tested(), NEXT)).toBe(true)
  const { endpoint } = await client.switchSecret({ endpointId })
  expect(endpoint?.secrets).toMatchObject([{ next: false }])
  expect(isSignedWith(await next(), NEXT)).toBe(true)
  await expect(client.switchSecret({ endpointId })).rejects.toMatchObject({
    code: Code.FailedPrecondition,
  })
})

test('what belongs to one profile is refused in the other, by the name of the field', async () => {
  const { client, business, endpointId } = await setUp()
  const url = 'http://127.0.0.1:9/standard'
  const created = await client.createEndpoint({ businessId: business, url })
  expect(created.endpoint?.profile).toBe(EndpointProfile.STANDARD)
  const standard = created.endpoint!.id
  for (const [call, field] of [
    [() => client.rotateSecret({ endpointId, overlap: { seconds: 60n } }), 'overlap'],
    [() => client.rotateSecret({ endpointId: standard, textSecret: TEXT }), 'textSecret'],
    [() => client.updateEndpoint({ endpointId: standard, eventName: 'PAID' }), 'eventName'],
    [() => client.updateEndpoint({ endpointId: standard, payerAsArray: true }), 'payerAsArray'],
    [
      () => client.updateEndpoint({ endpointId: standard, legacySignature: LegacySignature.MD5 }),
      'legacySignature',
    ],
  ] as const) {
    const error = await call().catch((caught) => caught)
    expect([field, error.code, error.message]).toEqual([
      field,
      Code.InvalidArgument,
      expect.stringContaining(field),
    ])
  }
})

test('a request is valid if its text has 16 to 256 printable characters, and only in the profile', () => {
  const validator = createValidator()
  const isValid = (request: object) =>
    validator.validate(
      CreateEndpointRequestSchema,
      create(CreateEndpointRequestSchema, {
        businessId: 'biz_1',
        url: 'https://a.example',
        ...request,
      }),
    ).kind === 'valid'
  const { profile } = WIAXY
  const character = fc.integer({ min: 0, max: 0x17f }).map((code) => String.fromCodePoint(code))
  fc.assert(
    fc.property(fc.string({ unit: character, maxLength: 260 }), (textSecret) => {
      const isText = /^[!-~][ -~]{14,254}[!-~]$/.test(textSecret) || textSecret === ''
      expect(isValid({ profile, textSecret })).toBe(isText)
    }),
  )
  expect(isValid({ profile, textSecret: 'x'.repeat(256) })).toBe(true)
  expect(isValid({ profile, textSecret: 'x'.repeat(257) })).toBe(false)
  for (const only of [
    { textSecret: TEXT },
    { legacySignature: LegacySignature.MD5 },
    { eventName: 'PAID' },
    { payerAsArray: true },
  ]) {
    expect([only, isValid({ profile, ...only }), isValid(only)]).toEqual([only, true, false])
  }
  expect(isValid({ profile, eventName: 'paid' })).toBe(false)
})

test('format and kinds can be changed, and the next request has them', async () => {
  const { client, endpointId, next } = await setUp({ payerAsArray: true, eventName: 'PAID' })
  const first = await next()
  expect(JSON.parse(first.rawBody)).toMatchObject({ event: 'PAID', data: { payer: [{}] } })
  expect(first.headers['x-wiaxy-signature']).toBeUndefined()
  const change = { eventName: '', payerAsArray: false, allKinds: true }
  const { endpoint } = await client.updateEndpoint({
    endpointId,
    ...change,
    legacySignature: LegacySignature.HMAC_BODY,
  })
  expect(endpoint).toMatchObject({ kinds: ['PAYMENT_NOTIFICATION'], eventName: '' })
  const second = await next()
  expect(JSON.parse(second.rawBody)).toMatchObject({
    event: 'PAYMENT_NOTIFICATION',
    data: { payer: { first_name: expect.any(String) }, customer: { email: expect.any(String) } },
  })
  const signature = createHmac('sha256', TEXT).update(second.rawBody).digest('hex')
  expect(second.headers['x-wiaxy-signature']).toBe(signature)
  const { deliveries } = await client.listDeliveries({ endpointId })
  const { request } = await client.getDelivery({ deliveryId: deliveries[0]!.id })
  expect(request?.body).toBe(second.rawBody)
  const { rows } = await harness.database.durablePool.query<{ details: string }>(
    "select details from audit_entry where action = 'endpoint.update' and target_id = $1",
    [endpointId],
  )
  expect(rows.map(({ details }) => JSON.parse(details))).toMatchObject([
    { legacySignature: 'HMAC_BODY', eventName: null, payerAsArray: false },
  ])
  const none = LegacySignature.UNSPECIFIED
  await client.updateEndpoint({ endpointId, legacySignature: none })
  expect((await next()).headers['x-wiaxy-signature']).toBeUndefined()
})

test('an endpoint that was created before there were profiles keeps the headers of both', async () => {
  const { client, business, endpointId, secret, next } = await setUp({
    profile: EndpointProfile.STANDARD,
    textSecret: '',
  })
  expect((await next()).headers).not.toHaveProperty('x-wiaxy-timestamp')
  await harness.database.durablePool.query(
    'update webhook_endpoint set profile = null where id = $1',
    [endpointId],
  )
  const { headers, rawBody } = await next()
  const key = Buffer.from(secret.replace('whsec_', ''), 'base64')
  const signed = createHmac('sha256', key).update(`${headers['x-wiaxy-timestamp']}.${rawBody}`)
  expect(headers).toMatchObject({
    'webhook-signature': expect.stringMatching(/^v1,/),
    'x-wiaxy-signature-256': signed.digest('hex'),
  })
  const { endpoints } = await client.listEndpoints({ businessId: business })
  expect(endpoints).toMatchObject([{ profile: EndpointProfile.STANDARD, wiaxyHeaders: true }])
})
