import { type Command, InvalidArgumentError } from 'commander'
import { AmountRule } from '../../../gen/inflow/account/v1/terms_pb.ts'
import { amount, durationSeconds, enumOption } from '../options.ts'

/** The options of `inflow account create` that make a one-time account. */
export interface TermsOptions {
  readonly amount?: bigint
  readonly amountRule?: AmountRule
  readonly expiresIn?: number
  readonly singleUse?: boolean
  readonly allowedPayer?: readonly string[]
  readonly metadata?: Readonly<Record<string, string>>
}

export function addTermsOptions(create: Command): void {
  create
    .option('--amount <naira>', 'expected amount of a payment', amount)
    .addOption(enumOption('--amount-rule <rule>', 'how it has to compare', AmountRule))
    .option('--expires-in <duration>', 'close it after so long, such as 30m', durationSeconds)
    .option('--single-use', 'close it after the first payment that is as expected')
    .option('--allowed-payer <names...>', 'names of those who may pay')
    .option('--metadata <key=value...>', "the business's own data", pairs)
}

/** The fields of the request. */
export function termsOf(options: TermsOptions) {
  const { expiresIn, singleUse, allowedPayer = [], metadata = {} } = options
  return {
    amountMinor: options.amount ?? 0n,
    amountRule: options.amountRule ?? AmountRule.UNSPECIFIED,
    ...(expiresIn !== undefined && { expiresInSeconds: expiresIn }),
    singleUse: singleUse ?? false,
    allowedPayers: allowedPayer.map((name) => ({ name })),
    metadata: { ...metadata },
  }
}

function pairs(text: string, before: Readonly<Record<string, string>> = {}) {
  const [, key, value] = /^([^=]+)=(.*)$/s.exec(text) ?? []
  if (key === undefined || value === undefined) throw new InvalidArgumentError('Must be key=value.')
  return { ...before, [key]: value }
}
