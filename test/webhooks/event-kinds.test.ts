import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import Fastify from 'fastify'
import { describe, expect, test } from 'vitest'
import { EventAudience } from '../../gen/inflow/type/v1/event_kind_pb.ts'
import { readConfig } from '../../src/config/config.ts'
import { KINDS_ON_REQUEST } from '../../src/events/message.ts'
import { listEventKinds } from '../../src/webhooks/list-event-kinds.ts'
import { addBusiness, openWebhooks, timeText } from './fixture.ts'
import { clientOf, useWebhooks } from './harness.ts'

const kinds = listEventKinds(timeText, readConfig({}).bankNames)
const webhookKinds = kinds.filter(({ audience }) => audience !== EventAudience.SUBSCRIBERS)

type Schema = { readonly properties: Readonly<Record<string, Schema>>; readonly required: string[] }

/** What only some accounts have: one-time accounts, and those with metadata. */
const PAYMENT = ['expected_amount', 'variance', 'hold_state', 'metadata', 'traceparent']
const OPTIONAL: Readonly<Record<string, readonly string[]>> = {
  PAYMENT_NOTIFICATION: PAYMENT,
  PAYMENT_REVERSED: PAYMENT,
  PAYMENT_ON_HOLD: ['expected_amount', 'metadata', 'traceparent'],
  PAYMENT_ACCEPTED: ['expected_amount', 'metadata', 'traceparent'],
  PAYMENT_RETURN_REQUESTED: ['expected_amount', 'metadata', 'traceparent'],
  ACCOUNT_CREATED: ['expected_amount', 'metadata'],
  ACCOUNT_CLOSED: ['expected_amount', 'metadata'],
  ACCOUNT_EXPIRED: ['expected_amount', 'metadata'],
}

const SRC = join(import.meta.dirname, '../../src')

test('has every kind that the service records', () => {
  const sources = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts') && !/^(postgres|cli|client)\//.test(name))
    .map((name) => readFileSync(join(SRC, name), 'utf8'))
  // The kind of a row of the outbox is an SQL literal; of others, `encodeEvent` asserts it.
  const recorded = sources.flatMap((text) =>
    [...text.matchAll(/insert into outbox [^`]*?(?:\bfrom\b|`)/g)].flatMap(([statement]) =>
      [...statement.matchAll(/'([A-Z]+_[A-Z_]+)'/g)].map(([, name]) => name),
    ),
  )
  expect(new Set(recorded).size).toBeGreaterThan(8)
  const names = kinds.map(({ kind }) => kind)
  for (const name of recorded) expect(names).toContain(name)
})

test('states of each kind when it is recorded and who is sent it', () => {
  for (const { kind, description, audience } of kinds) {
    expect(kind).toMatch(/^[A-Z]+(_[A-Z]+)*$/)
    expect(description).toMatch(/^[A-Z].+\.$/)
    expect(audience).not.toBe(EventAudience.UNSPECIFIED)
  }
  expect(KINDS_ON_REQUEST).toEqual(['ACCOUNT_CREATED'])
  const internal = kinds.filter(({ audience }) => audience === EventAudience.SUBSCRIBERS)
  expect(internal.map(({ kind, schema, example }) => [kind, schema, example])).toEqual([
    ['PAYMENT_UNMATCHED', undefined, undefined],
    ['PAYMENT_HELD', undefined, undefined],
  ])
})

describe.each(webhookKinds.map((each) => [each.kind, each] as const))(
  'the schema of %s',
  (kind, { schema, example }) => {
    const accepts = async (body: unknown): Promise<boolean> => {
      const server = Fastify({ ajv: { customOptions: { coerceTypes: false } } })
      const { $schema: _, ...bodySchema } = schema as Record<string, unknown>
      server.post('/', { schema: { body: bodySchema } }, async () => 'ok')
      const response = await server.inject({ method: 'POST', url: '/', payload: body as object })
      await server.close()
      return response.statusCode === 200
    }

    test('accepts its example', async () => {
      expect(example).toMatchObject({ event: kind })
      expect(await accepts(example)).toBe(true)
    })

    test('has every field of its example, and no other is required', () => {
      const { properties, required } = schema as unknown as Schema
      const names = Object.keys((example as { data: object }).data)
      expect(required).toEqual(['event', 'data'])
      const { properties: known, required: always } = properties['data']!
      expect(Object.keys(known).filter((name) => names.includes(name))).toEqual(names)
      expect(always.filter((name) => !names.includes(name))).toEqual([])
      const others = Object.keys(known).filter((name) => !always.includes(name))
      expect(others).toEqual(OPTIONAL[kind] ?? [])
    })

    test('refuses another kind, a missing field and a wrong type', async () => {
      const { data } = example as { data: Record<string, unknown> }
      expect(await accepts({ event: 'OTHER', data })).toBe(false)
      expect(await accepts({ event: kind, data: { ...data, sequence: '42' } })).toBe(false)
      const optional = OPTIONAL[kind] ?? []
      for (const name of Object.keys(data)) {
        const { [name]: _, ...others } = data
        const isAccepted = optional.includes(name)
        expect([name, await accepts({ event: kind, data: others })]).toEqual([name, isAccepted])
      }
      if (optional.includes('metadata')) {
        const metadata = { order: 5 }
        expect(await accepts({ event: kind, data: { ...data, metadata } })).toBe(false)
      }
    })
  },
)

describe('an endpoint', () => {
  const harness = useWebhooks()

  test.each(['PAYMENT_NOTIFICATON', 'PAYMENT_UNMATCHED'])('cannot request %s', async (kind) => {
    const webhooks = openWebhooks(harness.database)
    const client = clientOf(webhooks)
    const businessId = await addBusiness(harness.database)
    const url = 'https://example.com/'
    const wrong = { kinds: ['ACCOUNT_CLOSED', kind] }
    const refusal = { rawMessage: 'Invalid request: kinds[1]' }
    await expect(client.createEndpoint({ businessId, url, ...wrong })).rejects.toMatchObject(
      refusal,
    )
    const { endpoint } = await client.createEndpoint({ businessId, url, kinds: [kind].slice(1) })
    const update = { endpointId: endpoint!.id, description: 'changed', ...wrong }
    await expect(client.updateEndpoint(update)).rejects.toMatchObject(refusal)
    const { endpoints } = await client.listEndpoints({ businessId })
    expect(endpoints).toEqual([endpoint])
    await webhooks.stop()
  })
})
