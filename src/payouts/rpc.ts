import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import type { ContextValues, ServiceImpl } from '@connectrpc/connect'
import { PayoutPurpose, PayoutStatus } from '../../gen/inflow/payout/v1/payout_pb.ts'
import { PayoutDecision, type PayoutService } from '../../gen/inflow/payout/v1/payout_service_pb.ts'
import { actorOf, callerKey, restrictionOf } from '../auth/caller.ts'
import { fromBankCode, toBankCode } from '../banks/message.ts'
import { getBusiness } from '../businesses/get-business.ts'
import { assert, Fault } from '../core/errors.ts'
import { amountInWords } from '../core/money.ts'
import {
  enumName,
  enumNames,
  fromTimestamp,
  toInt64,
  toOptionalTimestamp,
} from '../protobuf/values.ts'
import { type Batch, findBatch, listBatches, listRefused } from './batch.ts'
import { getPolicy, updatePolicy } from './change-policy.ts'
import { createBatch } from './create-batch.ts'
import { createPayout } from './create-payout.ts'
import { approveBatch, rejectBatch } from './decide-batch.ts'
import {
  type ApproveContext,
  approvePayout,
  cancelPayout,
  rejectPayout,
  resolvePayout,
} from './decide-payout.ts'
import { listDiscrepancies, resolveDiscrepancy } from './discrepancies.ts'
import { listFloats } from './float.ts'
import { listBeneficiaries, listInstitutions, listPayouts, listSteps } from './list-payouts.ts'
import {
  actorShown,
  pauseShown,
  payoutShown,
  stepShown,
  toBatchItem,
  toBatchMessage,
  toDiscrepancyMessage,
  toLine,
  toPauseMessage,
  toPauseTarget,
  toPayoutMessage,
  toPolicy,
  toPolicyMessage,
  toStepMessage,
} from './message.ts'
import { listPauses, pausePayouts, resumePayouts } from './pauses.ts'
import type { Payout } from './payout.ts'
import { reconcilePayouts } from './reconcile-payouts.ts'
import { refundTransaction } from './refund-transaction.ts'
import { refundUnmatched } from './refund-unmatched.ts'
import { requesterOf } from './reserve-payout.ts'
import { resolveName } from './resolve-name.ts'
import { findByReference, findPayout } from './store.ts'

/** The most differences that one response contains. */
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
      return { payout: messageFor(call, payout), replayed }
    },
    async getPayout(request, call) {
      const { payoutId, businessId, reference } = request
      const key = { businessId, live: isLive(request), reference }
      return read(async (on) => {
        const payout =
          payoutId === '' ? await findByReference(on, key) : await findPayout(on, payoutId)
        if (payout === undefined || (businessId !== '' && payout.businessId !== businessId)) {
          throw new Fault('not_found', 'There is no such payout')
        }
        const steps = await listSteps(on, payout.id)
        const own = restrictedName(call)
        const shown = own === undefined ? steps : steps.map((step) => stepShown(step, own))
        return { payout: messageFor(call, payout), steps: shown.map(toStepMessage) }
      })
    },
    async listPayouts(request, call) {
      const { businessId, live, from, to, transactionId, accountNumber, batchId } = request
      const { pageSize, pageToken } = request
      const { rows, nextPageToken } = await read((on) =>
        listPayouts(on, {
          businessIds: shownBusinesses(businessId, restrictionOf(call.values)),
          live,
          statuses: enumNames(PayoutStatus, request.statuses) ?? [],
          purpose: enumName(PayoutPurpose, request.purpose),
          fromMs: from && fromTimestamp(from),
          toMs: to && fromTimestamp(to),
          transactionId,
          accountNumber,
          batchId,
          pageSize,
          pageToken,
        }),
      )
      return { payouts: rows.map((payout) => messageFor(call, payout)), nextPageToken }
    },
    async createPayouts(request, call) {
      const { businessId, reference, validateOnly: isValidatedOnly } = request
      const items = request.items.map(toBatchItem)
      const details = { businessId, live: isLive(request), reference, items, isValidatedOnly }
      const { batch, replayed } = await createBatch(context, details, actorOf(call))
      return { batch: batchFor(call, batch), sumInWords: amountInWords(batch.sumMinor), replayed }
    },
    async getBatch(request, call) {
      return read(async (on) => {
        const batch = await findBatch(on, request)
        if (batch === undefined) throw new Fault('not_found', 'There is no such batch')
        const refused = [...(await listRefused(on, batch.id))]
        return { batch: batchFor(call, batch), sumInWords: amountInWords(batch.sumMinor), refused }
      })
    },
    async listBatches(request, call) {
      await getBusiness(database, request.businessId)
      const { rows, nextPageToken } = await read((on) => listBatches(on, request))
      return { batches: rows.map((batch) => batchFor(call, batch)), nextPageToken }
    },
    async approveBatch(request, call) {
      const { batch, count, sumMinor } = await approveBatch(context, request, actorOf(call))
      const sumInWords = amountInWords(sumMinor)
      return { batch: batchFor(call, batch), count, sumMinor, sumInWords }
    },
    async rejectBatch(request, call) {
      const { batch, count, sumMinor } = await rejectBatch(context, request, actorOf(call))
      const sumInWords = amountInWords(sumMinor)
      return { batch: batchFor(call, batch), count, sumMinor, sumInWords }
    },
    async approvePayout(request, call) {
      return { payout: messageFor(call, await approvePayout(context, request, actorOf(call))) }
    },
    async rejectPayout(request, call) {
      return { payout: messageFor(call, await rejectPayout(context, request, actorOf(call))) }
    },
    async cancelPayout(request, call) {
      return { payout: messageFor(call, await cancelPayout(context, request, actorOf(call))) }
    },
    async resolvePayout({ payoutId, decision, note, sessionId }, call) {
      const resolution = enumName(PayoutDecision, decision)
      assert(resolution, 'validation requires a decision')
      const request = { payoutId, decision: resolution, note, sessionId }
      return { payout: messageFor(call, await resolvePayout(context, request, actorOf(call))) }
    },
    async refundTransaction(request, call) {
      const { beneficiary, ...refund } = request
      const account = beneficiary && { ...beneficiary, field: 'beneficiary' }
      const result = await refundTransaction(
        context,
        { ...refund, account, amountField: 'amountMinor' },
        actorOf(call),
      )
      return { ...result, payout: messageFor(call, result.payout) }
    },
    async refundUnmatchedPayment({ unmatchedPaymentId, reason, beneficiary }, call) {
      const account = beneficiary && { ...beneficiary, field: 'beneficiary' }
      const request = { unmatchedPaymentId, reason, account }
      const { payout, replayed } = await refundUnmatched(context, request, actorOf(call))
      return { payout: messageFor(call, payout), replayed }
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
    async listPauses({ businessId, pageSize, pageToken }, call) {
      const businessIds = shownBusinesses(businessId, restrictionOf(call.values))
      const { rows, nextPageToken } = await read((on) =>
        listPauses(on, { businessIds, pageSize, pageToken }),
      )
      const own = restrictedName(call)
      const shown = own === undefined ? rows : rows.map((pause) => pauseShown(pause, own))
      return { pauses: shown.map(toPauseMessage), nextPageToken }
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
            readAt: toOptionalTimestamp(readAtMs),
            error,
            inProgressMinor: toInt64(inProgressMinor),
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

interface Call {
  readonly values: ContextValues
}

/** The caller as an actor; undefined: it is not restricted to businesses, and sees who acted for others. */
function restrictedName({ values }: Call): string | undefined {
  const caller = values.get(callerKey)
  return caller?.kind === 'internal' && caller.businessIds !== undefined
    ? requesterOf({ kind: 'token', id: caller.tokenId })
    : undefined
}

function messageFor(call: Call, payout: Payout) {
  const own = restrictedName(call)
  return toPayoutMessage(own === undefined ? payout : payoutShown(payout, own))
}

function batchFor(call: Call, batch: Batch) {
  const own = restrictedName(call)
  const requestedBy = own === undefined ? batch.requestedBy : actorShown(batch.requestedBy, own)
  return toBatchMessage({ ...batch, requestedBy })
}

/** The businesses of a list: the business that the request names, else the businesses of the token; undefined: all. */
function shownBusinesses(
  businessId: string,
  restriction: ReadonlySet<string> | undefined,
): readonly string[] | undefined {
  if (businessId !== '') return [businessId]
  return restriction && [...restriction]
}
