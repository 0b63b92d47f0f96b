import {
  create,
  type DescField,
  type DescMessage,
  getOption,
  type Message,
  ScalarType,
} from '@bufbuild/protobuf'
import { reflect } from '@bufbuild/protobuf/reflect'
import { TimestampSchema } from '@bufbuild/protobuf/wkt'
import {
  type FieldRules,
  field as fieldOption,
  message as messageOption,
} from '@bufbuild/protovalidate/gen/buf/validate/validate_pb.js'
import { expect, test } from 'vitest'
import { SERVICES } from '../../../src/protobuf/contract-services.ts'
import { createCheck } from '../../../src/server/interceptors/validation.ts'
import { creation } from '../rest/rest.ts'

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

const methods = SERVICES.flatMap((service) => service.methods)
const messages = requestMessages(methods.map(({ input }) => input))
const check = createCheck()

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

test('no rule of the contract fails over two times, however far they are apart', () => {
  const times = [-(2n ** 63n), -62_135_596_800n, 253_402_300_799n, 2n ** 63n - 1n].map((seconds) =>
    create(TimestampSchema, { seconds }),
  )
  for (const schema of messages) {
    const fields = schema.fields.filter(({ message }) => message === TimestampSchema)
    for (const [first, second] of fields.flatMap((a) => fields.map((b) => [a, b] as const)))
      for (const [a, b] of times.flatMap((x) => times.map((y) => [x, y] as const))) {
        const message = create(schema)
        reflect(schema, message).set(first, reflect(TimestampSchema, a))
        reflect(schema, message).set(second, reflect(TimestampSchema, b))
        expect(() => check(schema, message), `${schema.name} ${first.name}`).not.toThrow()
      }
  }
})

/**
 * Characters that show nothing or that change how others are shown, beside those that a line of text cannot have: each
 * makes two texts look alike, or one look like another.
 */
const HIDDEN = {
  control: '\u0007',
  'line break': '\n',
  'next line': '\u0085',
  'soft hyphen': '\u00ad',
  'zero-width space': '\u200b',
  'zero-width joiner between letters that do not join': '\u200d',
  'zero-width non-joiner between letters that do not join': '\u200c',
  'right-to-left mark': '\u200f',
  'right-to-left override': '\u202e',
  'right-to-left isolate': '\u2067',
  'word joiner': '\u2060',
  'byte order mark': '\ufeff',
  'Arabic letter mark': '\u061c',
  tag: '\u{e0041}',
  'line separator': '\u2028',
  'paragraph separator': '\u2029',
  'private use': '\ue000',
  noncharacter: '\uffff',
  unassigned: '\u0378',
  'lone surrogate': '\ud800',
}

/** Fields that are ignored or compared with what is stored, and neither stored nor shown to others. */
const SOUGHT =
  /((?<!client|bank_account)_ids?|page_token|customer_email)$|^(VerifyAudit|VerifyLedger)Request\.from$|^(Search|ListBusinesses)Request\.query$|^ListApiRequestsRequest\.path$|^ListUnmatchedPaymentsRequest\.account_number$|^ListAuditEntriesRequest\.action$|^SubscribeRequest\.cursor$|^CreatePayoutRequest\.resolution$|^((Get|Cancel|Close|Update|Upgrade|List|Requery|Resolve|Assign|SetAccount)\w+|SimulatePayment)Request\.reference$|^Beneficiary\.bank_name$/

/** Secrets, which are not shown, and what the use case checks with the parsers of its format. */
const PARSED =
  /^(BasicAuthentication\.password|OAuth2ClientCredentials\.(client_secret|token_url)|ClientCertificate\..*|CustomHeader\..*|\w+WebhookRequest\.url|\w+EndpointRequest\.url|RehearsalCandidate\.url|(Issue|Import)KeyRequest\.allowed_cidrs|UpdateKeyRequest\.allowed_cidrs|\w+\.(from|to|recorded_from|recorded_to|expires_at)|ListEventsRequest\.kinds)$/

/** What banks and payers wrote. Money that arrived is recorded whatever they wrote, without these characters. */
const CLEANED =
  /^(Payer\.\w+|(RecordPaymentRequest|ImportedTransaction)\.narration|StatementRow\.narration)$/

const READ = messages.flatMap((schema) =>
  schema.fields
    .filter(({ scalar, name }) => {
      const full = `${schema.name}.${name}`
      const isApart = SOUGHT.test(full) || PARSED.test(full) || CLEANED.test(full)
      return scalar === ScalarType.STRING && !isApart
    })
    .map((field) => [`${schema.name}.${field.name}`, schema, field] as const),
)

const textOf = (field: DescField, text: string) => {
  if (field.fieldKind === 'map') return { key: text }
  return field.fieldKind === 'list' ? [text] : text
}

test.each(READ)(
  '%s is a text that people read, and refuses what they cannot see',
  (_name, schema, field) => {
    for (const [what, character] of Object.entries(HIDDEN)) {
      const message = create(schema, {
        [field.localName]: textOf(field, `a${character}b`),
      } as never)
      const faults = check(schema, message).map((fault) => fault.field)
      expect(
        faults.some((name) => name.split(/[.[]/)[0] === field.jsonName),
        what,
      ).toBe(true)
    }
  },
)

const creationFaults = (init: object) => {
  const schema = messages.find(({ name }) => name === 'GenerateVirtualAccountRequest')!
  return check(schema, create(schema, creation({ ...init }) as never)).map(
    ({ field, message }) => `${field} ${message}`,
  )
}

test.each([
  ['Yoruba', 'Ọláwálé'],
  ['Arabic', 'عبد الله'],
  ['Persian, which has a zero-width non-joiner', 'علی\u200cرضا'],
  ['Sinhala, which has a zero-width joiner', 'ප්\u200dරියන්ත'],
  ['Hindi, which may have several', 'क्\u200dष क्\u200cष\u200cक'],
  ['with an apostrophe and a hyphen', 'O’Brien-Ọbásanjọ́'],
  ['with an emoji', '😀'.repeat(100)],
])('a name may be %s', (_script, name) => {
  expect(creationFaults({ firstName: name, lastName: name })).toEqual([])
})

test('characters that join are refused where nothing joins', () => {
  const fault =
    'firstName must be 1 to 100 characters without line breaks, control or invisible characters'
  for (const name of [
    'Ada\u200cObi',
    'علی\u200c',
    '\u200cعلی',
    'علی\u200c\u200cرضا',
    'علی\u200d رضا',
    'क\u200da',
  ]) {
    expect([name, creationFaults({ firstName: name })]).toEqual([name, [fault]])
  }
  expect(creationFaults({ firstName: 'क्\u200d'.repeat(34) })).toEqual([fault])
})

test.each([
  'no-break\u00a0space',
  'joins\u0915\u200d\u0915',
  'variation\ufe0fselector',
  'grapheme\u034fjoiner',
  'blank\u2800',
])('a reference has one look: %j is refused', (reference) => {
  expect(creationFaults({ reference })).toEqual(['reference must be 1 to 100 printable characters'])
})

test('a reference may have any characters that show', () => {
  for (const reference of ['ọdún 12/№5', '订单-1', 'طلب ٣', 'é'.repeat(100), '😀'.repeat(100)])
    expect([reference, creationFaults({ reference })]).toEqual([reference, []])
})
