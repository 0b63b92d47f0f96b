import {
  create,
  type DescField,
  type DescMessage,
  getOption,
  type Message,
} from '@bufbuild/protobuf'
import {
  type FieldRules,
  field as fieldOption,
  message as messageOption,
  oneof as oneofOption,
} from '@bufbuild/protovalidate/gen/buf/validate/validate_pb.js'
import { expect, test } from 'vitest'
import { loadServices } from '../../../proto/contract-services.ts'
import { createCheck } from '../../../src/server/interceptors/validation.ts'

/** Every message that requests have, with its own fields. */
function requestMessages(inputs: readonly DescMessage[]): DescMessage[] {
  const found = new Set<DescMessage>()
  const visit = (message: DescMessage | undefined) => {
    if (!message?.typeName.startsWith('inflow.') || found.has(message)) return
    found.add(message)
    for (const field of message.fields) visit(field.message)
  }
  inputs.forEach(visit)
  return [...found]
}

const methods = (await loadServices()).flatMap((service) => service.methods)
const messages = requestMessages(methods.map(({ input }) => input))

/** Regular expressions, and texts of protovalidate that only those understand who know it. */
const RAW =
  /regex|pattern|\\p|\[\^|\{\d|\$$|`|\^|value must|repeated value|item\(s\)|in list|be greater than|be less than|equal|\bmap must|1 characters/i

const isFine = (text: string) =>
  !RAW.test(text) && /^(must|is|needs|working_days|cut_off) /.test(text)

/** Values that break each rule of a field. */
function breaking(field: DescField, { type }: FieldRules): unknown[] {
  const list = (values: unknown[]) =>
    field.fieldKind === 'list' ? values.map((each) => [each]) : values
  const texts = ['\n\n', 'x'.repeat(100_000), '\u0001', '€€€ /', '']
  switch (type.case) {
    case 'string':
      return list(texts)
    case 'int32':
      return list([-2_147_483_648, 2_147_483_647, 0])
    case 'int64':
      return list([-(2n ** 62n), 2n ** 62n, 0n])
    case 'enum':
      return list([99, 1, 2, 3, 4])
    case 'bool':
      return [false]
    case 'duration':
      return [{ seconds: -1n }, { seconds: 10n ** 9n }]
    case 'timestamp':
      return [{ seconds: -62_135_596_800n }, { seconds: 253_402_300_799n }]
    case 'repeated': {
      const { items } = type.value
      const one = field.message ? create(field.message) : 'x'
      const many = Array(1_001).fill(one)
      return [[], many, ...(items ? texts.map((text) => [text]) : [])]
    }
    case 'map':
      return [
        { 'a b': '\n' },
        Object.fromEntries([...Array(21).keys()].map((key) => [`k${key}`, ''])),
      ]
    default:
      return []
  }
}

test('the message of every rule of the contract is in words, without regular expressions', () => {
  const check = createCheck()
  const texts = new Map<string, string>()
  const broken = new Set<string>()
  const tried: string[] = []
  const judge = (schema: DescMessage, init: object) => {
    const faults = check(schema, create(schema, init as never) as Message)
    for (const { field, message } of faults) texts.set(message, `${schema.name}.${field}`)
    return faults
  }
  for (const schema of messages) {
    judge(schema, {})
    for (const rule of getOption(schema, messageOption).cel) texts.set(rule.message, schema.name)
    for (const field of schema.fields) {
      const rules = getOption(field, fieldOption)
      for (const rule of rules.cel) texts.set(rule.message, `${schema.name}.${field.name}`)
      if (rules.type.case === undefined) continue
      const name = `${schema.name}.${field.name}`
      tried.push(name)
      for (const value of breaking(field, rules)) {
        const choice = { case: field.localName, value }
        const init = field.oneof
          ? { [field.oneof.localName]: choice }
          : { [field.localName]: value }
        const faults = judge(schema, init)
        if (faults.some(({ field: at }) => at.split(/[.[]/)[0] === field.jsonName)) broken.add(name)
      }
    }
  }
  expect(tried.length).toBeGreaterThan(100)
  expect(tried.filter((name) => !broken.has(name))).toEqual([])
  expect(texts.size).toBeGreaterThan(50)
  expect([...texts].filter(([text]) => !isFine(text))).toEqual([])
})

test.each([
  ['SimulateTransferRequest', { accountNumber: '1' }, 'accountNumber must be ten digits'],
  [
    'CreateAccountRequest',
    { bank: 99 },
    'bank must be one of BANK_9PSB, BANK_SAFEHAVEN, BANK_PROVIDUS, BANK_PALMPAY',
  ],
  ['ListTransactionsRequest', { pageSize: 201 }, 'page_size must be 0 to 200'],
  [
    'GenerateVirtualAccountRequest',
    { firstName: 'A\nB' },
    'firstName must be 1 to 100 characters without line breaks or control characters',
  ],
  ['CreateWebhookRequest', { kinds: ['A', 'A'] }, 'kinds must not have a value twice'],
  ['RecordPaymentsRequest', {}, 'payments must have at least one entry'],
  ['RotateKeyRequest', { overlap: { seconds: -1n } }, 'overlap must be 0 to 2592000 seconds'],
  ['ResolveAccountRequest', {}, 'resolution is required: one of opened, notOpened'],
])('%s %o: %s', (name, init, expected) => {
  const schema = messages.find((message) => message.name === name)!
  const faults = createCheck()(schema, create(schema, init as never))
  expect(faults.map(({ field, message }) => `${field} ${message}`)).toContain(expected)
})

test('a required choice has members that JSON knows', () => {
  const choices = messages.flatMap(({ oneofs }) => oneofs)
  const required = choices.filter(
    (oneof) => oneof.proto.options && getOption(oneof, oneofOption).required,
  )
  expect(required.map(({ name }) => name)).toEqual(['resolution'])
})
