import type { MessageInitShape } from '@bufbuild/protobuf'
import { IdType } from '../../../gen/inflow/account/v1/account_pb.ts'
import type { CreateAccountRequestSchema } from '../../../gen/inflow/account/v1/account_service_pb.ts'
import { FeeBearer, type SplitSchema } from '../../../gen/inflow/account/v1/split_pb.ts'
import { AmountRule } from '../../../gen/inflow/account/v1/terms_pb.ts'
import { parseNaira } from '../format/money.ts'
import type { FormValues } from '../ui/form.tsx'
import { bankOf } from './account-words.ts'

const RULE_OF: Readonly<Record<string, AmountRule>> = {
  exact: AmountRule.EXACT,
  atLeast: AmountRule.AT_LEAST,
  atMost: AmountRule.AT_MOST,
  any: AmountRule.ANY,
}

const ID_TYPES: Readonly<Record<string, IdType>> = { nin: IdType.NIN, bvn: IdType.BVN }

/** The request that opens an account. */
export function readAccount(
  form: FormValues,
  live: boolean,
): MessageInitShape<typeof CreateAccountRequestSchema> {
  const expiresAt = form.time('expiresAt')
  const amountMinor = form.kobo('amountMinor')
  return {
    businessId: form.text('businessId'),
    reference: form.text('reference'),
    bank: bankOf(form.text('bank')),
    firstName: form.text('firstName'),
    lastName: form.text('lastName'),
    email: form.text('email'),
    phone: form.text('phone'),
    idType: ID_TYPES[form.text('idType')] ?? IdType.UNSPECIFIED,
    idNumber: form.text('idNumber'),
    identityId: form.text('identityId'),
    otp: form.text('otp'),
    test: !live,
    amountMinor,
    amountRule:
      amountMinor === 0n
        ? AmountRule.UNSPECIFIED
        : (RULE_OF[form.text('amountRule')] ?? AmountRule.UNSPECIFIED),
    ...(expiresAt && { expiresAt }),
    singleUse: form.isOn('singleUse'),
    allowedPayers: form.lines('allowedPayers').map(readPayer),
    metadata: Object.fromEntries(form.lines('metadata').map(readPair)),
  }
}

/** `0123456789`, `0123456789 000013`, or a name. */
function readPayer(line: string) {
  const [, accountNumber = '', bankCode = ''] = /^(\d{10})(?:\s+(\w+))?$/.exec(line) ?? []
  return accountNumber === '' ? { name: line } : { accountNumber, bankCode }
}

function readPair(line: string): readonly [string, string] {
  const equals = line.indexOf('=')
  return equals < 0 ? [line, ''] : [line.slice(0, equals).trim(), line.slice(equals + 1).trim()]
}

/** The most businesses that a split has. */
export const RECIPIENTS_MAX = 5

/** The split that a form holds; rows without a business are left out. */
export function readSplit(form: FormValues): MessageInitShape<typeof SplitSchema> {
  const rows = Array.from({ length: RECIPIENTS_MAX }, (_, index) => ({
    businessId: form.text(`split.recipients[${index}].businessId`),
    share: readShare(form.text(`split.recipients[${index}].basisPoints`)) ?? {},
  }))
  return {
    recipients: rows
      .filter(({ businessId }) => businessId !== '')
      .map(({ businessId, share }) => ({ businessId, ...share })),
    feeBearer: form.text('split.feeBearer') === 'shared' ? FeeBearer.SHARED : FeeBearer.OWNER,
  }
}

/** Reads `12.5%` or an amount of naira; undefined: it is neither. */
export function readShare(
  text: string,
): { readonly basisPoints: number } | { readonly amountMinor: bigint } | undefined {
  const percent = /^(\d{1,3})(?:\.(\d{1,2}))?\s*%$/.exec(text)
  if (percent) {
    const basisPoints = Number(percent[1]) * 100 + Number((percent[2] ?? '').padEnd(2, '0'))
    return basisPoints <= 10_000 && basisPoints > 0 ? { basisPoints } : undefined
  }
  const amountMinor = parseNaira(text)
  return amountMinor ? { amountMinor } : undefined
}
