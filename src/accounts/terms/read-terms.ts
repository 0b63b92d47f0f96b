import { invalidFields } from '../../core/errors.ts'
import { COMMON_MIN, wordsOf } from './payer-name.ts'
import {
  type AllowedPayer,
  type AmountRule,
  type Metadata,
  type RequestedTerms,
  termsOf,
} from './terms.ts'

/** Options of a validated request to open an account. */
interface TermsOptions extends Omit<RequestedTerms, 'amountRule' | 'allowedPayers'> {
  /** Undefined: EXACT if an amount is expected, otherwise ANY. */
  readonly amountRule: AmountRule | undefined
  /** Each has an account number or a name; what it has not is empty. */
  readonly allowedPayers: readonly {
    readonly accountNumber: string
    readonly bankCode: string
    readonly name: string
  }[]
}

/**
 * The terms that a business requests; undefined: a permanent account.
 *
 * @throws Fault validation_failed (a name that no payer's name can be compared with)
 */
export function toRequestedTerms(options: TermsOptions): RequestedTerms | undefined {
  const isExpected = options.expectedAmountMinor !== undefined
  const faults = options.allowedPayers.flatMap(({ name }, index) => {
    if (name === '' || wordsOf(name).size >= COMMON_MIN) return []
    const message =
      'must have two words of two letters or more, other than titles like "Mr" and "Ltd"'
    return [{ field: `allowedPayers[${index}].name`, message }]
  })
  if (faults.length > 0) throw invalidFields(faults)
  return termsOf({
    ...options,
    amountRule: options.amountRule ?? (isExpected ? 'EXACT' : 'ANY'),
    allowedPayers: options.allowedPayers.map(
      ({ name, accountNumber, bankCode }): AllowedPayer =>
        name === '' ? { accountNumber, bankCode } : { name },
    ),
  })
}

/** Undefined if there are no pairs. */
export function metadataOf(pairs: Metadata): Metadata | undefined {
  return Object.keys(pairs).length === 0 ? undefined : { ...pairs }
}
