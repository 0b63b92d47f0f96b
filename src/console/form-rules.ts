import { type DescField, type DescMessage, getOption } from '@bufbuild/protobuf'
import {
  type FieldRules,
  field as fieldRules,
} from '@bufbuild/protovalidate/gen/buf/validate/validate_pb.js'
import { SERVICES } from '../protobuf/contract-services.ts'

/** The rules of a field that an HTML control can check. */
interface FieldRule {
  readonly required?: boolean
  readonly maxLength?: number
  readonly pattern?: string
  readonly min?: number
  readonly max?: number
  /** The allowed texts. */
  readonly choices?: readonly string[]
}

/**
 * The rules of requests that change something, by message and field: `inflow.webhook.v1.EndpointOptions.rateLimit`.
 * The build computes them, and the browser loads them with the first form, because its descriptors have no rules.
 */
export const FORM_RULES: Readonly<Record<string, FieldRule>> = Object.fromEntries(
  // The console calls no method of the businesses' own API.
  SERVICES.filter(({ typeName }) => !typeName.startsWith('inflow.thirdparty.'))
    .flatMap(({ methods }) => methods)
    .filter(({ name }) => !/^(Get|List)/.test(name))
    .flatMap(({ input }) => rulesOf(input)),
)

function rulesOf(message: DescMessage): (readonly [string, FieldRule])[] {
  return message.fields.flatMap((field) => {
    const rule = ruleOf(field, getOption(field, fieldRules))
    const own = [`${message.typeName}.${field.localName}`, rule] as const
    const inner = field.fieldKind === 'message' ? rulesOf(field.message) : []
    return Object.keys(rule).length === 0 ? inner : [own, ...inner]
  })
}

function ruleOf(field: DescField, rules: FieldRules): FieldRule {
  const { type, required, cel } = rules
  const isRequired = required || (type.case === 'repeated' && type.value.minItems > 0n)
  return {
    ...(isRequired && field.fieldKind !== 'enum' && { required: true }),
    ...(type.case === 'string' && textRule(type.value)),
    ...((type.case === 'int32' || type.case === 'int64') && rangeRule(type.value)),
    ...(type.case === 'repeated' && textRule(type.value.items?.type.value)),
    ...cel
      .map(({ expression }) => celRule(expression))
      .reduce((all, one) => Object.assign(all, one), {}),
  }
}

function textRule(value: object | undefined): FieldRule {
  const {
    maxLen = 0n,
    pattern = '',
    in: choices = [],
  } = (value ?? {}) as {
    readonly maxLen?: bigint
    readonly pattern?: string
    readonly in?: readonly string[]
  }
  return {
    ...(maxLen > 0n && { maxLength: Number(maxLen) }),
    ...htmlPattern(/^\^(.*)\$$/.exec(pattern)?.[1]),
    ...(choices.length > 0 && { choices }),
  }
}

function rangeRule(value: object): FieldRule {
  const { greaterThan, lessThan } = value as Readonly<
    Record<string, { readonly case?: string; readonly value?: number | bigint }>
  >
  return {
    ...(greaterThan?.case === 'gte' && { min: Number(greaterThan.value) }),
    ...(lessThan?.case === 'lte' && { max: Number(lessThan.value) }),
  }
}

/** Converts the two CEL expressions that HTML supports: a maximum length, and a single pattern. */
function celRule(expression: string): FieldRule {
  const length = /this\.size\(\) <= (\d+)/.exec(expression)?.[1]
  const pattern = /^(?:this == '' \|\| )?this\.matches\('\^([^']*)\$'\)$/.exec(expression)?.[1]
  return { ...(length && { maxLength: Number(length) }), ...htmlPattern(pattern) }
}

/** Omits patterns that browsers cannot compile: they use the flag `v`, which is stricter than the service. */
function htmlPattern(pattern: string | undefined): FieldRule {
  if (pattern === undefined || pattern.includes('\\')) return {}
  const length = /^\[[^\]]*\]\{(?:\d+,)?(\d+)\}$/.exec(pattern)?.[1]
  const limit = length === undefined ? {} : { maxLength: Number(length) }
  try {
    new RegExp(pattern, 'v')
    return { ...limit, pattern }
  } catch {
    return limit
  }
}
