import { type DescField, type DescMessage, type DescService, getOption } from '@bufbuild/protobuf'
import {
  type FieldRules,
  field as fieldRules,
} from '@bufbuild/protovalidate/gen/buf/validate/validate_pb.js'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { OverviewService } from '../../gen/inflow/overview/v1/overview_service_pb.ts'
import { PayoutService } from '../../gen/inflow/payout/v1/payout_service_pb.ts'
import { SessionService } from '../../gen/inflow/session/v1/session_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'

/** What a control of HTML can check of the rules of a field. */
export interface FieldRule {
  readonly required?: boolean
  readonly maxLength?: number
  readonly pattern?: string
  readonly min?: number
  readonly max?: number
  /** The texts that are allowed. */
  readonly choices?: readonly string[]
}

const SERVICES: readonly DescService[] = [
  AccountService,
  AdminService,
  BusinessService,
  OverviewService,
  PayoutService,
  SessionService,
  SettlementService,
  WebhookService,
]

/**
 * The rules of the requests that change something, by message and field: `inflow.webhook.v1.EndpointOptions.rateLimit`.
 * The build computes them, and the browser loads them with the first form: its descriptors have no rules.
 */
export const FORM_RULES: Readonly<Record<string, FieldRule>> = Object.fromEntries(
  SERVICES.flatMap(({ methods }) => methods)
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

/** The two expressions that HTML knows too: a length at most, and a pattern alone. */
function celRule(expression: string): FieldRule {
  const length = /this\.size\(\) <= (\d+)/.exec(expression)?.[1]
  const pattern = /^(?:this == '' \|\| )?this\.matches\('\^([^']*)\$'\)$/.exec(expression)?.[1]
  return { ...(length && { maxLength: Number(length) }), ...htmlPattern(pattern) }
}

/** Browsers compile patterns with the flag `v`, which refuses some that the service accepts. */
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
