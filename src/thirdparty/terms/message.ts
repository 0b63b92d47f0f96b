import type { MessageInitShape } from '@bufbuild/protobuf'
import type { GenerateVirtualAccountRequest } from '../../../gen/inflow/thirdparty/v2/third_party_service_pb.ts'
import type { TermsSchema } from '../../../gen/inflow/thirdparty/v2/thirdparty_pb.ts'
import type { AccountStatus } from '../../accounts/account.ts'
import { toPayerMessage } from '../../accounts/terms/message.ts'
import { toRequestedTerms } from '../../accounts/terms/read-terms.ts'
import type { AccountTerms, AmountRule, RequestedTerms } from '../../accounts/terms/terms.ts'
import type { TimeText } from '../../core/clock.ts'
import { invalidFields } from '../../core/errors.ts'
import { parseAmount, toMajorNumber } from '../../core/money.ts'

/**
 * @param request a validated request
 * @returns undefined for a permanent account
 * @throws Fault validation_failed (an expiry that is no time, or a payer's name)
 */
export function readTerms(
  request: GenerateVirtualAccountRequest,
  timeText: TimeText,
): RequestedTerms | undefined {
  const { amount, amountRule, expiresAt, expiresIn, singleUse, allowedPayers } = request
  return toRequestedTerms({
    expectedAmountMinor: amount === '' ? undefined : parseAmount(amount),
    amountRule: (amountRule || undefined) as AmountRule | undefined,
    expiresAtMs: expiresAt === '' ? undefined : readExpiry(expiresAt, timeText),
    expiresInSeconds: expiresIn,
    singleUse,
    allowedPayers,
  })
}

/** @throws Fault validation_failed (it is no time) */
export function readExpiry(text: string, timeText: TimeText): number {
  const atMs = timeText.parse(text)
  if (atMs !== undefined) return atMs
  const message = 'must be RFC 3339 or YYYY-MM-DD HH:MM:SS'
  throw invalidFields([{ field: 'expiresAt', message }])
}

export function toTerms(
  terms: AccountTerms,
  status: AccountStatus,
  timeText: TimeText,
): MessageInitShape<typeof TermsSchema> {
  const { expectedAmountMinor, expiresAtMs, amountRule, singleUse } = terms
  return {
    amountRule,
    singleUse,
    status,
    allowedPayers: terms.allowedPayers.map(toPayerMessage),
    ...(expectedAmountMinor !== undefined && { amount: toMajorNumber(expectedAmountMinor) }),
    ...(expiresAtMs !== undefined && { expiresAt: timeText.format(expiresAtMs) }),
  }
}
