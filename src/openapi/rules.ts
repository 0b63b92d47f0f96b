import {
  type DescField,
  type DescMessage,
  getOption,
  type JsonObject,
  ScalarType,
} from '@bufbuild/protobuf'
import {
  type FieldRules,
  field as fieldOption,
  message as messageOption,
  type Rule,
} from '@bufbuild/protovalidate/gen/buf/validate/validate_pb.js'

/** The validation rules of a field. */
export interface Rules {
  readonly required: boolean
  /** Keywords of JSON Schema. */
  readonly keywords: JsonObject
  /** The rules that JSON Schema cannot state, as sentences. */
  readonly notes: readonly string[]
}

/** @throws Error for a kind of rule that has no translation, so that the document never lacks one */
export function rulesOf(field: DescField): Rules {
  const rules = getOption(field, fieldOption)
  const { keywords, notes } = translate(rules)
  const nonEmpty = isText(field) && rules.required && !('pattern' in keywords || 'enum' in keywords)
  return {
    required: rules.required,
    keywords: nonEmpty ? { minLength: 1, ...keywords } : keywords,
    notes,
  }
}

/** The rules over several fields of a message, as texts that begin with the field at fault. */
export function messageRulesOf(message: DescMessage): string[] {
  return getOption(message, messageOption).cel.map(({ id, message: text }) => {
    const field = message.fields.find(({ name }) => name === id.split('.')[0])
    if (!field) throw new Error(`rule ${id} of ${message.typeName} begins with no field`)
    return `\`${field.jsonName}\` ${text}`
  })
}

function isText(field: DescField): boolean {
  return field.fieldKind === 'scalar' && field.scalar === ScalarType.STRING
}

interface Translation {
  readonly keywords: JsonObject
  readonly notes: readonly string[]
}

function translate(rules: FieldRules): Translation {
  const typed = translateTyped(rules)
  const cel = rules.cel.map(translateCel)
  return {
    keywords: Object.assign({}, typed.keywords, ...cel.map(({ keywords }) => keywords)),
    notes: [...typed.notes, ...cel.flatMap(({ notes }) => notes)],
  }
}

/** The names of rules of protovalidate, and the keywords that mean the same. */
const KEYWORDS: Readonly<Record<string, string>> = {
  minLen: 'minLength',
  maxLen: 'maxLength',
  pattern: 'pattern',
  gte: 'minimum',
  lte: 'maximum',
  minItems: 'minItems',
  maxItems: 'maxItems',
  unique: 'uniqueItems',
  minPairs: 'minProperties',
  maxPairs: 'maxProperties',
}

function translateTyped({ type }: FieldRules): Translation {
  const keywords: JsonObject = {}
  const notes: string[] = []
  if (type.case === undefined) return { keywords, notes }
  const nest = (keyword: string, rules: FieldRules | undefined) => {
    if (!rules) return
    const inner = translate(rules)
    if (Object.keys(inner.keywords).length > 0) keywords[keyword] = inner.keywords
    notes.push(...inner.notes)
  }
  // Oneofs of the rules hold the bounds of numbers.
  const { greaterThan, lessThan, items, keys, values, $typeName, $unknown, ...own } =
    type.value as unknown as Record<string, unknown>
  for (const bound of [greaterThan, lessThan] as { case?: string; value?: unknown }[]) {
    if (bound?.case) own[bound.case] = bound.value
  }
  nest('items', items as FieldRules | undefined)
  nest('propertyNames', keys as FieldRules | undefined)
  nest('additionalProperties', values as FieldRules | undefined)
  for (const [name, value] of Object.entries(own)) {
    if (isUnset(value)) continue
    const keyword = KEYWORDS[name]
    if (keyword === undefined) throw new Error(`the rule ${type.case}.${name} has no translation`)
    keywords[keyword] = typeof value === 'bigint' ? Number(value) : (value as never)
  }
  return { keywords, notes }
}

function isUnset(value: unknown): boolean {
  if (typeof value === 'object' && value !== null) return Object.values(value).every(isUnset)
  return value === undefined || value === false || value === 0 || value === 0n || value === ''
}

/**
 * Expressions that JSON Schema can state, which the contract writes in one way. An empty text is the same
 * as an absent field, so the schemas leave it out.
 */
const EXPRESSIONS: readonly (readonly [RegExp, (text: string) => JsonObject])[] = [
  [/^(?:this == '' \|\| )?this\.matches\('([^']*)'\)$/, toPattern],
  [/^this in \[(.*)\]$/, (list) => ({ enum: textsOf(list) })],
  [/^this\.size\(\) <= (\d+)$/, (text) => ({ maxLength: Number(text) })],
  [/^this\.(isEmail)\(\)$/, () => ({ format: 'email' })],
  [/^this >= (\d+)$/, (text) => ({ minimum: Number(text) })],
  [/^this <= (\d+)$/, (text) => ({ maximum: Number(text) })],
]

function translateCel({ expression, message }: Rule): Translation {
  const parts = expression.includes('(this.') ? [expression] : expression.split(' && ')
  const keywords: JsonObject = {}
  for (const part of parts) {
    const known = EXPRESSIONS.find(([pattern]) => pattern.test(part))
    if (!known) return { keywords: {}, notes: [message] }
    Object.assign(keywords, known[1](known[0].exec(part)?.[1] ?? ''))
  }
  return { keywords, notes: [] }
}

/**
 * In place of a pattern with classes of Unicode properties: Python's `re` has no `\p{…}`, and generated clients compile
 * it without the flag that it needs. It refuses control characters and line breaks; the service also refuses what is
 * invisible.
 */
const WITHOUT_CONTROLS = '^[^\\u0000-\\u001f\\u007f-\\u009f\\u2028\\u2029]*$'

/** @param literal of CEL */
function toPattern(literal: string): JsonObject {
  // CEL has the escapes of JavaScript, but for one.
  const pattern = literal.replaceAll('\\\\', '\\').replaceAll(/\\U000(\w{5})/g, '\\u{$1}')
  // The bounds of one class of characters are lengths too, which more readers understand; so is the lower one of a group.
  const [, of, min, max] = /^\^(\[(?:[^\]\\]|\\.)*\]|\(.*\))\{(\d+),(\d+)\}\$$/.exec(pattern) ?? []
  return {
    ...(max !== undefined && min !== '0' && { minLength: Number(min) }),
    ...(max !== undefined && of?.startsWith('[') && { maxLength: Number(max) }),
    pattern: pattern.includes('\\p{') ? WITHOUT_CONTROLS : pattern,
  }
}

function textsOf(list: string): string[] {
  return [...list.matchAll(/'([^']*)'/g)].map(([, text = '']) => text).filter((text) => text !== '')
}
