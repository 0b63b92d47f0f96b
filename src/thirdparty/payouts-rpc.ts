import { create } from '@bufbuild/protobuf'
import type { HandlerContext, ServiceImpl } from '@connectrpc/connect'
import {
  type Payout as PayoutMessage,
  PayoutSchema,
} from '../../gen/inflow/thirdparty/v2/payout_pb.ts'
import type { ThirdPartyService } from '../../gen/inflow/thirdparty/v2/third_party_service_pb.ts'
import { actorOf, callingBusiness } from '../auth/caller.ts'
import type { BankCode } from '../banks/bank.ts'
import type { TimeText } from '../core/clock.ts'
import { Fault, invalidFields } from '../core/errors.ts'
import { CURRENCY, toMajorNumber } from '../core/money.ts'
import { createPayout } from '../payouts/create-payout.ts'
import { cancelPayout } from '../payouts/decide-payout.ts'
import { getByReference, listInstitutions, listPayouts } from '../payouts/list-payouts.ts'
import type { Payout, PayoutStatus } from '../payouts/payout.ts'
import { refundTransaction } from '../payouts/refund-transaction.ts'
import type { PayoutContext } from '../payouts/reserve-payout.ts'
import { resolveName } from '../payouts/resolve-name.ts'
import { findIdBySession } from '../transactions/find-transactions.ts'
import { readTimes, succeed, toAmountMinor, toPageToken } from './message.ts'

export interface PayoutDependencies {
  readonly payouts: PayoutContext
  readonly timeText: TimeText
}

/**
 * The methods of a business for payouts and refunds. Authentication admits only keys with the scope `payouts` that are bound
 * to addresses. There is no method to approve a payout, because the key that requested it could then approve it.
 */
export function createPayoutMethods({ payouts, timeText }: PayoutDependencies) {
  const { database, institutions } = payouts
  const shown = (payout: Payout) => toPayout(payout, timeText)
  return {
    async listBanks(request) {
      const { rows, nextPageToken } = await inRestNames(async () =>
        listInstitutions(institutions, request),
      )
      const banks = rows.map(({ code, name }) => ({ bankCode: code, bankName: name }))
      return succeed('Banks retrieved', { banks, ...toPageToken(nextPageToken) })
    },
    async resolveAccountName({ bankCode, accountNumber }, context) {
      const { businessId, live } = callingBusiness(context)
      const { destination, resolution, expiresAtMs } = await inRestNames(() =>
        resolveName(payouts, { businessId, live }, { bankCode, accountNumber }),
      )
      const data = { ...destination, resolution, expiresAt: timeText.format(expiresAtMs) }
      return succeed('Account name resolved', data)
    },
    async createPayout(request, context) {
      const { businessId, live } = callingBusiness(context)
      const { reference, bankCode, accountNumber, accountName, resolution, narration } = request
      const account = { bankCode, accountNumber, accountName, field: '' }
      const amountMinor = toAmountMinor(request.amount)
      const requested = { businessId, live, reference, amountMinor, account, resolution, narration }
      const { payout, replayed } = await inRestNames(() =>
        createPayout(payouts, requested, actorOf(context)),
      )
      if (replayed) stateReplay(context)
      return succeed('Payout requested', shown(payout))
    },
    async getPayout({ reference }, context) {
      const { businessId, live } = callingBusiness(context)
      const key = { businessId, live, reference }
      const payout = await database.read((on) => getByReference(on, key))
      return succeed('Payout retrieved', shown(payout))
    },
    async listPayouts({ status, pageSize, pageToken, ...period }, context) {
      const { businessId, live } = callingBusiness(context)
      const times = readTimes(timeText, { from: period.from, to: period.to })
      const filter = {
        businessIds: [businessId],
        live,
        statuses: status === '' ? [] : [status as PayoutStatus],
        fromMs: times.from,
        toMs: times.to,
        pageSize,
        pageToken,
      }
      const { rows, nextPageToken } = await inRestNames(() =>
        database.read((on) => listPayouts(on, filter)),
      )
      const data = { payouts: rows.map(shown), ...toPageToken(nextPageToken) }
      return succeed('Payouts retrieved', data)
    },
    async cancelPayout({ reference }, context) {
      const { businessId, live } = callingBusiness(context)
      const key = { businessId, live, reference }
      const { id: payoutId } = await getByReference(database.durablePool, key)
      const cancelled = await cancelPayout(payouts, { payoutId, note: '' }, actorOf(context))
      return succeed('Payout cancelled', shown(cancelled))
    },
    async refundTransaction(request, context) {
      const { businessId, live } = callingBusiness(context)
      const { sessionId, reason, reference, bankCode, accountNumber, accountName } = request
      const bank = request.bank as BankCode | ''
      const key = { businessId, live, sessionId, bank }
      const refund = {
        transactionId: await findIdBySession(database.durablePool, key),
        amountMinor: request.amount === '' ? 0n : toAmountMinor(request.amount),
        reason,
        account: bankCode === '' ? undefined : { bankCode, accountNumber, accountName, field: '' },
        reference,
        amountField: 'amount',
      }
      const { payout, replayed, refundableMinor } = await inRestNames(() =>
        refundTransaction(payouts, refund, actorOf(context)),
      )
      if (replayed) stateReplay(context)
      const refundable = toMajorNumber(refundableMinor)
      return succeed('Refund requested', Object.assign(shown(payout), { refundable }))
    },
  } satisfies Partial<ServiceImpl<typeof ThirdPartyService>>
}

function stateReplay({ responseHeader }: HandlerContext): void {
  responseHeader.set('idempotent-replayed', 'true')
}

/** The names in REST of the fields that use cases name. */
const REST_NAMES: ReadonlyMap<string, string> = new Map([
  ['amountMinor', 'amount'],
  ['bankCode', 'bank_code'],
  ['accountNumber', 'account_number'],
  ['accountName', 'account_name'],
  ['pageToken', 'page_token'],
  // A refund may state the account of its payer.
  ['beneficiary', 'account_number'],
  ['beneficiary.bankCode', 'bank_code'],
  ['beneficiary.accountNumber', 'account_number'],
])

/** A field that requests do not have here, because the key determines the business. */
const ABSENT = 'businessId'

/** Runs a use case, and renames the fields of its faults to their names in REST. */
async function inRestNames<Result>(run: () => Promise<Result>): Promise<Result> {
  try {
    return await run()
  } catch (error) {
    if (!(error instanceof Fault) || error.fields.length === 0) throw error
    const { reason, message, facts, logged, cause, retryAfterSeconds } = error
    const fields = error.fields
      .filter(({ field }) => field !== ABSENT)
      .map((fault) => ({ ...fault, field: REST_NAMES.get(fault.field) ?? fault.field }))
    if (reason === 'validation_failed') throw invalidFields(fields)
    const retry = retryAfterSeconds === undefined ? {} : { retryAfterSeconds }
    throw new Fault(reason, message, { fields, facts, logged, cause, ...retry })
  }
}

function toPayout(payout: Payout, timeText: TimeText): PayoutMessage {
  const { sessionId, failureReason, refundedSessionId, settlementId } = payout
  const { expiresAtMs, completedAtMs } = payout
  return create(PayoutSchema, {
    payoutId: payout.id,
    reference: payout.reference,
    purpose: payout.purpose,
    status: payout.status,
    amount: toMajorNumber(payout.amountMinor),
    fee: toMajorNumber(payout.feeMinor),
    duty: toMajorNumber(payout.dutyMinor),
    currency: CURRENCY,
    ...payout.destination,
    narration: payout.narration,
    createdAt: timeText.format(payout.createdAtMs),
    ...(sessionId !== '' && { sessionId }),
    ...(failureReason !== '' && { failureReason }),
    ...(expiresAtMs !== undefined && { expiresAt: timeText.format(expiresAtMs) }),
    ...(completedAtMs !== undefined && { completedAt: timeText.format(completedAtMs) }),
    ...(refundedSessionId !== '' && { refundedTransaction: refundedSessionId }),
    ...(settlementId !== '' && { settlementId }),
  })
}
