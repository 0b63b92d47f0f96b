import type { DescEnum, EnumShape } from '@bufbuild/protobuf'
import { type Bank, BankSchema } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { words } from './ids.ts'

/** The four tones of a status, each with a colour and a shape. */
export type Tone = 'good' | 'waiting' | 'bad' | 'neutral'

/** A choice of a filter or a field. */
export interface Choice {
  /** The value in the URL and in the form. */
  readonly value: string
  readonly label: string
}

/** The labels of values that the console names differently than the contract. */
const LABELS: Readonly<Record<string, string>> = {
  'AccountStatus.unknown': 'Unknown',
  'AmountRule.EXACT': 'Exactly',
  'AmountRule.ANY': 'Any amount',
  'Bank.9PSB': '9PSB',
  'Bank.SAFEHAVEN': 'Safe Haven',
  'Bank.PALMPAY': 'PalmPay',
  'CallerKind.ADMIN_TOKEN': 'ADMIN_TOKEN',
  'CallerKind.OIDC': 'OpenID Connect',
  'DeliveryStatus.unknown': 'Unknown',
  'FeeBearer.OWNER': 'The business',
  'FeeBearer.SHARED': 'All, in proportion to their shares',
  'IdType.BVN': 'Bank verification number',
  'IdType.NIN': 'National identity number',
  'LegacySignature.HMAC_BODY': 'HMAC-SHA256 of the body alone (weak)',
  'LegacySignature.MD5': 'MD5 of the text (weak)',
  'PauseScope.BANK': 'Through a bank',
  'PauseScope.BUSINESS': 'Of a business',
  'PauseScope.GLOBAL': 'All payouts',
  'PayoutDecision.ASK_AGAIN': 'Ask the bank again',
  'PayoutDecision.MARK_FAILED': 'The bank did not pay it, and will not',
  'PayoutDecision.MARK_PAID': 'The bank paid it',
  'PayoutDecision.MARK_RETURNED': 'The bank of the beneficiary sent it back',
  'PayoutDecision.RESEND': 'Send it again, under the same reference',
  'PayoutStatus.PENDING_APPROVAL': 'Awaits approval',
  'PayoutStatus.SUBMITTING': 'Being sent',
  'PayoutStatus.UNKNOWN': 'Result unknown',
  'RehearsalVerdict.unknown': 'Unknown',
  'RunScope.PAYMENTS': 'All payments',
  'RunScope.unknown': '–',
  'Schedule.INSTANT': 'Within a minute',
  'Schedule.WORKING_DAYS': 'After working days',
  'Variance.EXPIRED': 'After expiry',
  'Variance.NONE': 'As expected',
}

const TONES: Readonly<Record<string, Tone>> = {
  ACTIVE: 'good',
  DELIVERED: 'good',
  PAID: 'good',
  PASSED: 'good',
  APPROVED: 'waiting',
  PENDING: 'waiting',
  PENDING_APPROVAL: 'waiting',
  SUBMITTING: 'waiting',
  UNKNOWN: 'waiting',
  WARNING: 'waiting',
  FAILED: 'bad',
  MANUAL_REVIEW: 'bad',
  RETURNED: 'bad',
}

/** The codes in URLs that differ from the name of the value. */
const CODES: Readonly<Record<string, string>> = {
  'HoldState.RETURN_REQUESTED': 'return',
  'OpeningState.MANUAL_REVIEW': 'review',
  'Variance.PAYER_NOT_ALLOWED': 'payer',
}

/** The name of a value without the prefix of its enum: `9PSB`; empty if it is unspecified. */
export function enumName(schema: DescEnum, value: number): string {
  const name = value === 0 ? '' : (schema.value[value]?.name ?? '')
  return name.replace(`${schema.name.replace(/\B([A-Z])/g, '_$1').toUpperCase()}_`, '')
}

/** A value in words: `After expiry`; empty if it is unspecified. */
export function enumLabel(schema: DescEnum, value: number): string {
  const name = enumName(schema, value)
  return LABELS[`${schema.name}.${name || 'unknown'}`] ?? words(name)
}

export function enumTone(schema: DescEnum, value: number): Tone {
  return TONES[enumName(schema, value)] ?? 'neutral'
}

/** The ranks of choices that are listed first or last, because they are chosen most or least. */
const RANKS: Readonly<Record<string, number>> = {
  'AmountRule.ANY': 1,
  'IdType.BVN': -1,
  'TransactionStatus.SUCCESS': -1,
  'Variance.NONE': 1,
}

/** The values as choices of a field, by their names in the contract. */
export function enumFieldChoices(schema: DescEnum): readonly Choice[] {
  const rank = (value: number) => RANKS[`${schema.name}.${enumName(schema, value)}`] ?? 0
  return schema.values
    .filter(({ number }) => number !== 0)
    .toSorted((a, b) => rank(a.number) - rank(b.number))
    .map(({ number }) => ({ value: enumName(schema, number), label: enumLabel(schema, number) }))
}

/** The values as choices of a filter, by their codes in URLs. */
export function enumChoices(schema: DescEnum): readonly Choice[] {
  return enumFieldChoices(schema).map(({ value, label }) => ({
    value: codeOf(schema, value),
    label,
  }))
}

/** The value of a code in a URL, or of a name; undefined: there is no such value. */
export function enumValue<D extends DescEnum>(schema: D, text: string): EnumShape<D> | undefined {
  const code = text.toLowerCase()
  const found = schema.values.find(({ number }) => {
    const name = enumName(schema, number)
    return name !== '' && (codeOf(schema, name) === code || name.toLowerCase() === code)
  })
  return found?.number as EnumShape<D> | undefined
}

function codeOf(schema: DescEnum, name: string): string {
  return CODES[`${schema.name}.${name}`] ?? name.toLowerCase()
}

/** The name of a bank; a dash if there is none. */
export function bankName(bank: Bank): string {
  return enumLabel(BankSchema, bank) || '–'
}
