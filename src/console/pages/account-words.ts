import {
  type Account,
  AccountStatus,
  OpeningState,
} from '../../../gen/inflow/account/v1/account_pb.ts'
import type { Split } from '../../../gen/inflow/account/v1/split_pb.ts'
import {
  type AllowedPayer,
  AmountRule,
  type PaymentTerms,
} from '../../../gen/inflow/account/v1/terms_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { naira } from '../format/money.ts'
import type { Choice } from '../ui/filters.tsx'
import type { Tone } from '../ui/values.tsx'

/** The banks by their codes in URLs and commands. */
export const BANKS: readonly (Choice & { readonly bank: Bank })[] = [
  { value: '9PSB', label: '9 Payment Service Bank', bank: Bank.BANK_9PSB },
  { value: 'SAFEHAVEN', label: 'Safe Haven', bank: Bank.BANK_SAFEHAVEN },
  { value: 'PROVIDUS', label: 'Providus', bank: Bank.BANK_PROVIDUS },
  { value: 'PALMPAY', label: 'PalmPay', bank: Bank.BANK_PALMPAY },
]

export function bankOf(code: string): Bank {
  return BANKS.find(({ value }) => value === code)?.bank ?? Bank.BANK_UNSPECIFIED
}

export const STATUSES: readonly (Choice & {
  readonly status: AccountStatus
  readonly tone: Tone
})[] = [
  { value: 'pending', label: 'Pending', status: AccountStatus.PENDING, tone: 'waiting' },
  { value: 'active', label: 'Active', status: AccountStatus.ACTIVE, tone: 'good' },
  { value: 'closed', label: 'Closed', status: AccountStatus.CLOSED, tone: 'neutral' },
  { value: 'expired', label: 'Expired', status: AccountStatus.EXPIRED, tone: 'neutral' },
]

export function stateOfAccount({ status }: Account) {
  return (
    STATUSES.find((each) => each.status === status) ?? {
      label: 'Unknown',
      tone: 'neutral' as const,
    }
  )
}

/** The states of an opening, and what happens next. */
export const OPENINGS: readonly (Choice & {
  readonly state: OpeningState
  readonly says: string
})[] = [
  {
    value: 'creating',
    label: 'Creating',
    state: OpeningState.CREATING,
    says: 'The service is asking the bank.',
  },
  {
    value: 'retryable',
    label: 'Retryable',
    state: OpeningState.RETRYABLE,
    says: "The bank opened nothing. The business's next request asks it again.",
  },
  {
    value: 'retrying',
    label: 'Retrying',
    state: OpeningState.RETRYING,
    says: 'The result is unclear. The service repeats the request.',
  },
  {
    value: 'requerying',
    label: 'Requerying',
    state: OpeningState.REQUERYING,
    says: 'The result is unclear. The service asks the bank for it.',
  },
  {
    value: 'review',
    label: 'Manual review',
    state: OpeningState.MANUAL_REVIEW,
    says: 'The result is unclear, and another request could open a second account. Ask the bank, and resolve it.',
  },
]

export function openingOf(state: OpeningState | undefined) {
  return OPENINGS.find((each) => each.state === state)
}

const RULES: ReadonlyMap<AmountRule, string> = new Map([
  [AmountRule.EXACT, 'Exactly'],
  [AmountRule.AT_LEAST, 'At least'],
  [AmountRule.AT_MOST, 'At most'],
])

/** `Exactly ₦5,000.00`. */
export function expectedText({ amountMinor, amountRule }: PaymentTerms): string {
  if (amountMinor === 0n) return 'Any amount'
  const rule = RULES.get(amountRule)
  return rule ? `${rule} ${naira(amountMinor)}` : `Any amount; ${naira(amountMinor)} is expected`
}

export function payerText({ accountNumber, bankCode, name }: AllowedPayer): string {
  if (name !== '') return name
  return bankCode === '' ? accountNumber : `${accountNumber} at ${bankCode}`
}

/** A share in the words of commands and of the field that reads it: `12.5%` or `500.00`. */
export function shareText({ basisPoints, amountMinor }: Split['recipients'][number]): string {
  if (basisPoints > 0) return `${basisPoints / 100}%`
  return naira(amountMinor).slice(1)
}
