import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import type { ServiceImpl } from '@connectrpc/connect'
import { PayoutDecision, type PayoutService } from '../../gen/inflow/payout/v1/payout_service_pb.ts'
import { actorOf, restrictionOf } from '../auth/caller.ts'
import { fromBankCode, toBankCode } from '../banks/message.ts'
import { getBusiness } from '../businesses/get-business.ts'
import { amountInWords } from '../core/amount-in-words.ts'
import { assert, Fault } from '../core/errors.ts'
import { fromTimestamp } from '../protobuf/values.ts'
import { findBatch, listBatches, listRefused } from './batch.ts'
import { getPolicy, updatePolicy } from './change-policy.ts'
import { createBatch } from './create-batch.ts'
import { createPayout } from './create-payout.ts'
import { approveBatch, rejectBatch } from './decide-batch.ts'
import {
  type ApproveContext,
  approvePayout,
  cancelPayout,
  type Resolution,
  rejectPayout,
  resolvePayout,
} from './decide-payout.ts'
import { listDiscrepancies, resolveDiscrepancy } from './discrepancies.ts'
import { listFloats } from './float.ts'
import { listBeneficiaries, listInstitutions, listPayouts, listSteps } from './list-payouts.ts'
import {
  toBatchItem,
  toBatchMessage,
  toDiscrepancyMessage,
  toLine,
  toPauseMessage,
  toPauseTarget,
  toPayoutMessage,
  toPolicy,
  toPolicyMessage,
  toPurpose,
  toStatus,
  toStepMessage,
} from './message.ts'
import { listPauses, pausePayouts, resumePayouts } from './pauses.ts'
import { reconcilePayouts } from './reconcile-payouts.ts'
import { refundTransaction } from './refund-transaction.ts'
import { resolveName } from './resolve-name.ts'
import { findByReference, findPayout } from './store.ts'

const DECISIONS: Readonly<Record<PayoutDecision, Resolution | undefined>> = {
  [PayoutDecision.UNSPECIFIED]: undefined,
  [PayoutDecision.MARK_PAID]: 'MARK_PAID',
  [PayoutDecision.MARK_FAILED]: 'MARK_FAILED',
  [PayoutDecision.ASK_AGAIN]: 'ASK_AGAIN',
  [PayoutDecision.RESEND]: 'RESEND',
  [PayoutDecision.MARK_RETURNED]: 'MARK_RETURNED',
}

/** The most differences of one comparison that are shown. */
const SHOWN_MAX = 200

const isLive = ({ live }: { readonly live?: boolean | undefined }) => live ?? true

export function createPayoutRpc(context: ApproveContext): ServiceImpl<typeof PayoutService> {
  const { database, institutions } = context
  const { read } = database
  return {
    async listBanks(request) {
      const { rows, nextPageToken } = listInstitutions(institutions, request)
      return { banks: rows.map(({ code, name }) => ({ code, name })), nextPageToken }
    },
    async resolveAccountName(request) {
      const owner = { businessId: request.businessId, live: isLive(request) }
      await getBusiness(database, owner.businessId)
      const { bankCode, accountNumber } = request
      const resolved = await resolveName(context, owner, { bankCode, accountNumber })
      const { destination: beneficiary, resolution, expiresAtMs } = resolved
      return { beneficiary, resolution, expiresAt: timestampFromMs(expiresAtMs) }
    },
    async createPayout(request, call) {
      const { beneficiary, businessId, reference, amountMinor, resolution, narration } = request
      assert(beneficiary, 'validation requires a beneficiary')
      const { bankCode, accountNumber, accountName } = beneficiary
      const account = { bankCode, accountNumber, accountName, field: 'beneficiary' }
      const { payout, replayed } = await createPayout(
        context,
        {
          businessId,
          live: isLive(request),
          reference,
          amountMinor,
          account,
          resolution,
          narration,
        },
        actorOf(call),
      )
      return { payout: toPayoutMessage(payout), replayed }
    },
    async getPayout(request) {
      const { payoutId, businessId, reference } = request
      const key = { businessId, live: isLive(request), reference }
      return read(async (on) => {
        const payout =
          payoutId === '' ? await findByReference(on, key) : await findPayout(on, payoutId)
        if (payout === undefined || (businessId !== '' && payout.businessId !== businessId)) {
          throw new Fault('not_found', 'There is no such payout')
        }
        const steps = await listSteps(on, payout.id)
        return { payout: toPayoutMessage(payout), steps: steps.map(toStepMessage) }
      })
    },
    async listPayouts(request, { values }) {
      const { businessId, live, from, to, transactionId, accountNumber, batchId } = request
      const { pageSize, pageToken } = request
      const { rows, nextPageToken } = await read((on) =>
        listPayouts(on, {
          businessIds: shownBusinesses(businessId, restrictionOf(values)),
          live,
          statuses: request.statuses.flatMap((status) => toStatus(status) ?? []),
          purpose: toPurpose(request.purpose),
          fromMs: from && fromTimestamp(from),
          toMs: to && fromTimestamp(to),
          transactionId,
          accountNumber,
          batchId,
          pageSize,
          pageToken,
        }),
      )
      return { payouts: rows.map(toPayoutMessage), nextPageToken }
    },
    async createPayouts(request, call) {
      const { businessId, reference, validateOnly: isValidatedOnly } = request
      const items = request.items.map(toBatchItem)
      const details = { businessId, live: isLive(request), reference, items, isValidatedOnly }
      const { batch, replayed } = await createBatch(context, details, actorOf(call))
      return { batch: toBatchMessage(batch), sumInWords: amountInWords(batch.sumMinor), replayed }
    },
    async getBatch(request) {
      return read(async (on) => {
        const batch = await findBatch(on, request)
        if (batch === undefined) throw new Fault('not_found', 'There is no such batch')
        const refused = [...(await listRefused(on, batch.id))]
        return { batch: toBatchMessage(batch), sumInWords: amountInWords(batch.sumMinor), refused }
      })
    },
    async listBatches(request) {
      await getBusiness(database, request.businessId)
      const { rows, nextPageToken } = await read((on) => listBatches(on, request))
      return { batches: rows.map(toBatchMessage), nextPageToken }
    },
    async approveBatch(request, call) {
      const { batch, count, sumMinor } = await approveBatch(context, request, actorOf(call))
      const sumInWords = amountInWords(sumMinor)
      return { batch: toBatchMessage(batch), count, sumMinor, sumInWords }
    },
    async rejectBatch(request, call) {
      const { batch, count, sumMinor } = await rejectBatch(context, request, actorOf(call))
      const sumInWords = amountInWords(sumMinor)
      return { batch: toBatchMessage(batch), count, sumMinor, sumInWords }
    },
    async approvePayout(request, call) {
      return { payout: toPayoutMessage(await approvePayout(context, request, actorOf(call))) }
    },
    async rejectPayout(request, call) {
      return { payout: toPayoutMessage(await rejectPayout(context, request, actorOf(call))) }
    },
    async cancelPayout(request, call) {
      return { payout: toPayoutMessage(await cancelPayout(context, request, actorOf(call))) }
    },
    async resolvePayout({ payoutId, decision, note, sessionId }, call) {
      const resolution = DECISIONS[decision]
      assert(resolution, 'validation requires a decision')
      const request = { payoutId, decision: resolution, note, sessionId }
      return { payout: toPayoutMessage(await resolvePayout(context, request, actorOf(call))) }
    },
    async refundTransaction(request, call) {
      const { beneficiary, ...refund } = request
      const account = beneficiary && { ...beneficiary, field: 'beneficiary' }
      const result = await refundTransaction(
        context,
        { ...refund, account, amountField: 'amountMinor' },
        actorOf(call),
      )
      return { ...result, payout: toPayoutMessage(result.payout) }
    },
    async listBeneficiaries(request) {
      const { businessId, pageSize, pageToken } = request
      await getBusiness(database, businessId)
      const key = { businessId, live: isLive(request), pageSize, pageToken }
      const { rows, nextPageToken } = await read((on) => listBeneficiaries(on, key))
      const beneficiaries = rows.map(({ firstUsedAtMs, lastUsedAtMs, ...account }) => ({
        beneficiary: { ...account, bankName: institutions.find(account.bankCode)?.name ?? '' },
        firstUsedAt: timestampFromMs(firstUsedAtMs),
        lastUsedAt: timestampFromMs(lastUsedAtMs),
      }))
      return { beneficiaries, nextPageToken }
    },
    async pausePayouts(request, call) {
      const target = { ...toPauseTarget(request), reason: request.reason }
      return { pause: toPauseMessage(await pausePayouts(context, target, actorOf(call))) }
    },
    async resumePayouts(request, call) {
      const target = { ...toPauseTarget(request), reason: request.reason }
      await resumePayouts(context, target, actorOf(call))
      return {}
    },
    async listPauses({ businessId, pageSize, pageToken }, { values }) {
      const businessIds = shownBusinesses(businessId, restrictionOf(values))
      const { rows, nextPageToken } = await read((on) =>
        listPauses(on, { businessIds, pageSize, pageToken }),
      )
      return { pauses: rows.map(toPauseMessage), nextPageToken }
    },
    async reconcilePayouts(request, call) {
      const { bank, from, to, lines, pageToken } = request
      const period = from && to && { fromMs: fromTimestamp(from), toMs: fromTimestamp(to) }
      const { discrepancies, ...compared } = await reconcilePayouts(
        context,
        {
          bank: toBankCode(bank),
          live: isLive(request),
          period,
          lines: lines.map(toLine),
          pageToken,
        },
        actorOf(call),
      )
      return {
        ...compared,
        found: discrepancies.length,
        discrepancies: discrepancies.slice(0, SHOWN_MAX).map(toDiscrepancyMessage),
      }
    },
    async listPayoutDiscrepancies(request) {
      const { rows, nextPageToken } = await read((on) => listDiscrepancies(on, request))
      return { discrepancies: rows.map(toDiscrepancyMessage), nextPageToken }
    },
    async resolvePayoutDiscrepancy(request, call) {
      const resolved = await resolveDiscrepancy(context, request, actorOf(call))
      return { discrepancy: toDiscrepancyMessage(resolved) }
    },
    async getFloat(request) {
      const live = isLive(request)
      const floats = await read((on) => listFloats(context, on, live))
      return {
        floats: floats.map(
          ({ bank, availableMinor, readAtMs, error, inProgressMinor, isPaused }) => ({
            bank: fromBankCode(bank),
            live,
            ...(availableMinor !== undefined && { availableMinor }),
            ...(readAtMs !== undefined && { readAt: timestampFromMs(readAtMs) }),
            error,
            inProgressMinor,
            paused: isPaused,
          }),
        ),
      }
    },
    async getPayoutPolicy({ businessId }) {
      return { policy: toPolicyMessage(businessId, await getPolicy(context, businessId)) }
    },
    async updatePayoutPolicy({ policy }, call) {
      assert(policy, 'validation requires a policy')
      const { businessId } = policy
      const updated = await updatePolicy(context, businessId, toPolicy(policy), actorOf(call))
      return { policy: toPolicyMessage(businessId, updated) }
    },
  }
}

/** The businesses of a list: the one that the request names, those of the token, or undefined for all. */
function shownBusinesses(
  businessId: string,
  restriction: ReadonlySet<string> | undefined,
): readonly string[] | undefined {
  if (businessId !== '') return [businessId]
  return restriction && [...restriction]
}
