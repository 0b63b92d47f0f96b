import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { describe, expect, test } from 'vitest'
import { EventAudience } from '../../gen/inflow/type/v1/event_kind_pb.ts'
import { readConfig } from '../../src/config/config.ts'
import { KINDS_ON_REQUEST } from '../../src/events/message.ts'
import { listEventKinds } from '../../src/webhooks/list-event-kinds.ts'
import { timeText } from './fixture.ts'

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
    const accepts = new Ajv2020().compile(schema as object)

    test('accepts its example', () => {
      expect(example).toMatchObject({ event: kind })
      expect(accepts(example)).toBe(true)
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

    test('refuses another kind, a missing field and a wrong type', () => {
      const { data } = example as { data: Record<string, unknown> }
      expect(accepts({ event: 'OTHER', data })).toBe(false)
      expect(accepts({ event: kind, data: { ...data, sequence: '42' } })).toBe(false)
      const optional = OPTIONAL[kind] ?? []
      for (const name of Object.keys(data)) {
        const { [name]: _, ...others } = data
        const isAccepted = optional.includes(name)
        expect([name, accepts({ event: kind, data: others })]).toEqual([name, isAccepted])
      }
      if (optional.includes('metadata')) {
        const metadata = { order: 5 }
        expect(accepts({ event: kind, data: { ...data, metadata } })).toBe(false)
      }
    })
  },
)
