import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import type { CreateAccountRequest } from '../../../gen/inflow/account/v1/account_service_pb.ts'
import {
  type AllowedPayerSchema,
  AmountRule as AmountRuleMessage,
  type PaymentTerms as PaymentTermsMessage,
  PaymentTermsSchema,
} from '../../../gen/inflow/account/v1/terms_pb.ts'
import { fromTimestamp } from '../../protobuf/timestamp.ts'
import { toRequestedTerms } from './read-terms.ts'
import {
  type AccountTerms,
  type AllowedPayer,
  AMOUNT_RULES,
  type AmountRule,
  type RequestedTerms,
} from './terms.ts'

const RULES: Readonly<Record<AmountRule, AmountRuleMessage>> = {
  ANY: AmountRuleMessage.ANY,
  EXACT: AmountRuleMessage.EXACT,
  AT_LEAST: AmountRuleMessage.AT_LEAST,
  AT_MOST: AmountRuleMessage.AT_MOST,
}

export function toTermsMessage(terms: AccountTerms): PaymentTermsMessage {
  const { expiresAtMs, usedAtMs, endedAtMs } = terms
  return create(PaymentTermsSchema, {
    amountMinor: terms.expectedAmountMinor ?? 0n,
    amountRule: RULES[terms.amountRule],
    singleUse: terms.singleUse,
    allowedPayers: terms.allowedPayers.map(toPayerMessage),
    ...(expiresAtMs !== undefined && { expiresAt: timestampFromMs(expiresAtMs) }),
    ...(usedAtMs !== undefined && { usedAt: timestampFromMs(usedAtMs) }),
    ...(endedAtMs !== undefined && { endedAt: timestampFromMs(endedAtMs) }),
  })
}

export function toPayerMessage(payer: AllowedPayer): MessageInitShape<typeof AllowedPayerSchema> {
  return 'name' in payer
    ? { name: payer.name }
    : { accountNumber: payer.accountNumber, bankCode: payer.bankCode }
}

/**
 * @param request a validated request
 * @throws Fault validation_failed
 */
export function readTerms(request: CreateAccountRequest): RequestedTerms | undefined {
  const { amountMinor, expiresAt, expiresInSeconds, singleUse, allowedPayers } = request
  return toRequestedTerms({
    expectedAmountMinor: amountMinor === 0n ? undefined : amountMinor,
    amountRule: AMOUNT_RULES.find((rule) => RULES[rule] === request.amountRule),
    expiresAtMs: expiresAt && fromTimestamp(expiresAt),
    expiresInSeconds,
    singleUse,
    allowedPayers,
  })
}
