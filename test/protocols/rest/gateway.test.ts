import {
  create,
  type DescMessage,
  fromJson,
  type Message,
  ScalarType,
  toJson,
} from '@bufbuild/protobuf'
import { FeatureSet_FieldPresence, StructSchema } from '@bufbuild/protobuf/wkt'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  GenerateVirtualAccountRequestSchema,
  ThirdPartyService,
} from '../../../gen/inflow/thirdparty/v2/third_party_service_pb.ts'
import { ListTransactionsRequestSchema as InternalListSchema } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { restNameOf } from '../../../src/protobuf/values.ts'
import { compileDecoder, readRoutes } from '../../../src/server/http/gateway.ts'
import { createInvokers, type Invoker, implement } from '../../../src/server/invokers.ts'

const inputs = ThirdPartyService.methods.map((method) => [method.name, method.input] as const)
const outputs = ThirdPartyService.methods.map((method) => [method.name, method.output] as const)

/** Any message of a schema, with every field set but for optional ones now and then. */
function messages(schema: DescMessage): fc.Arbitrary<Message> {
  const fields = Object.fromEntries(
    schema.fields.map((field) => {
      const explicit = field.presence === FeatureSet_FieldPresence.EXPLICIT
      let values: fc.Arbitrary<unknown>
      if (field.fieldKind === 'message') values = messages(field.message)
      else if (field.fieldKind === 'list' && field.listKind === 'message') {
        values = fc.array(messages(field.message), { maxLength: 3 })
      } else if (field.fieldKind === 'list' && field.listKind === 'scalar') {
        values = fc.array(SCALARS[field.scalar]!, { maxLength: 3 })
      } else if (field.fieldKind === 'map' && field.scalar) {
        const keys = fc.string().filter((key) => key !== '__proto__')
        values = fc.dictionary(keys, SCALARS[field.scalar]!, { maxKeys: 3, noNullPrototype: true })
      } else if (field.fieldKind === 'scalar') values = SCALARS[field.scalar]!
      else throw new Error(`${field.name} has a type that this test does not know`)
      return [field.localName, explicit ? fc.option(values, { nil: undefined }) : values]
    }),
  )
  return fc.record(fields).map((init) => create(schema, init))
}

/** By the number of the type: double, int64, int32, bool, string. */
const SCALARS: Record<number, fc.Arbitrary<unknown>> = {
  1: fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => value + 0),
  3: fc.bigInt({ min: 0n, max: 2n ** 53n - 1n }),
  5: fc.integer({ min: -(2 ** 31) + 1 }),
  8: fc.boolean(),
  9: fc.string({ unit: 'grapheme' }),
}

/** A schema and those of its fields. A Struct is any JSON object. */
function withParts(schema: DescMessage): readonly DescMessage[] {
  if (schema.typeName === StructSchema.typeName) return []
  return [
    schema,
    ...schema.fields.flatMap((field) => (field.message ? withParts(field.message) : [])),
  ]
}

describe('answers', () => {
  test.each(outputs)(
    'of %s have types whose JSON is plain: no enums, and no texts for numbers',
    (_name, schema) => {
      for (const { fields } of withParts(schema)) {
        for (const field of fields) {
          const kind = field.fieldKind === 'list' ? field.listKind : field.fieldKind
          expect(['message', 'scalar']).toContain(kind)
          if (field.scalar !== undefined) {
            expect([
              ScalarType.STRING,
              ScalarType.BOOL,
              ScalarType.INT32,
              ScalarType.DOUBLE,
            ]).toContain(field.scalar)
          }
        }
      }
    },
  )

  test.each(outputs)('of %s have every field, in the order of the contract', (name, schema) => {
    const method = ThirdPartyService.methods.find((each) => each.name === name)!
    const { encode } = readRoutes([{ method } as Invoker])[0]!
    const empty = JSON.parse(encode(create(schema)))
    const implicit = schema.fields.filter(
      (field) => field.presence !== FeatureSet_FieldPresence.EXPLICIT,
    )
    expect(Object.keys(empty)).toEqual(implicit.map((field) => field.jsonName))
  })
})

describe('requests', () => {
  test.each(inputs)(
    'of %s are decoded as protobuf’s own JSON parser decodes them',
    (_name, schema) => {
      const decode = compileDecoder(schema)
      fc.assert(
        fc.property(messages(schema), (message) => {
          const json = toJson(schema, message, { alwaysEmitImplicit: true }) as Record<
            string,
            unknown
          >
          for (const field of schema.fields) {
            const value = json[field.jsonName]
            // Whole numbers come as numbers; protobuf writes those of 64 bits as texts.
            if (field.fieldKind === 'scalar' && field.scalar === 3)
              json[field.jsonName] = Number(value)
          }
          expect(decode(json)).toEqual({ message, fieldFaults: [] })
          expect(fromJson(schema, json as never)).toEqual(message)
        }),
      )
    },
  )

  test.each(inputs)(
    'of %s never throw, and find every mistyped field and no other',
    (_name, schema) => {
      const decode = compileDecoder(schema)
      const names = schema.fields.map(restNameOf)
      const key = fc.oneof(fc.constantFrom(...names, '__proto__', 'constructor'), fc.string())
      fc.assert(
        fc.property(fc.dictionary(key, fc.jsonValue()), (body) => {
          const { message, fieldFaults: faults = [] } = decode(JSON.parse(JSON.stringify(body)))
          // A fault may be in an object inside the field.
          const fields = faults.map(({ field }) => /^[^.[]*/.exec(field)?.[0])
          for (const field of fields) expect(names).toContain(field)
          expect(new Set(faults.map((fault) => fault.field)).size).toBe(faults.length)
          const kept = toJson(schema, message) as Record<string, unknown>
          for (const name of names) {
            if (body[name] == null || fields.includes(name)) {
              expect(kept[name]).toBeUndefined()
            }
          }
        }),
      )
    },
  )

  test('of a schema with other types make the start fail', () => {
    expect(() => compileDecoder(InternalListSchema)).toThrow('has a type that REST')
  })

  test('do not take fields from the prototype of objects', () => {
    const { message } = compileDecoder(GenerateVirtualAccountRequestSchema)(
      JSON.parse('{"__proto__": {"bank": "9PSB"}, "phone": "1"}'),
    )
    expect(message).toMatchObject({ bank: '', phone: '1' })
  })
})

test('the routes are the paths of the descriptors', () => {
  const methods = Object.fromEntries(
    ThirdPartyService.methods.map((method) => [method.localName, () => ({})]),
  )
  const invokers = createInvokers([implement(ThirdPartyService, methods as never)], {
    beforeDecoding: [],
    afterDecoding: [],
  })
  const names = [
    'generateVirtualAccount getTransaction getVirtualAccount listTransactions acceptPayment',
    'returnPayment listHeldPayments listEvents getBalance updateVirtualAccount',
    'upgradeVirtualAccount closeVirtualAccount listVirtualAccounts listSettlements getStatement',
    'listBanks resolveAccountName createPayout getPayout listPayouts cancelPayout refundTransaction',
    'createWebhook listWebhooks updateWebhook deleteWebhook testWebhook listDeliveries redeliver',
    'skipDelivery simulatePayment requeryTransaction',
  ].flatMap((line) => line.split(' '))
  const paths = readRoutes(invokers).map((route) => route.path)
  expect(paths).toEqual(names.map((name) => `/v2/thirdparty/${name}`))
})
