import { OutgoingState } from '../../../gen/inflow/payout/v1/payout_discrepancy_pb.ts'
import { PauseScope } from '../../../gen/inflow/payout/v1/payout_pb.ts'
import { PayoutDecision, PayoutService } from '../../../gen/inflow/payout/v1/payout_service_pb.ts'
import { ReconciliationService } from '../../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { TransactionStatus } from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { ADMIN_TOKEN } from '../../support/service.ts'
import { until } from '../rest/rest.ts'
import { unmatchedPayment } from './bank-rows.ts'
import {
  holdPayouts,
  type Make,
  openAccount,
  PAYEE,
  PAYER,
  PAYOUT_REFERENCE,
  pay,
  requestPayout,
  type Scene,
  settleOnce,
} from './scene.ts'

const payouts = ({ service }: Scene) => service.client(PayoutService)

/** A payout that awaits an approval, by its id. */
async function waiting(scene: Scene, reference: string, token: string = scene.requester) {
  const { service, businessId } = scene
  return { payoutId: await requestPayout(service, businessId, { reference, token }) }
}

const waitingId: Make = (scene, fresh) => waiting(scene, fresh)
const rejected: Make = async (scene, fresh) => {
  const { payoutId } = await waiting(scene, fresh)
  await payouts(scene).rejectPayout({ payoutId })
  return { payoutId }
}

/** A payout whose result is unknown; no bank is asked about it. */
async function unclear(scene: Scene, fresh: string, token: string = scene.requester) {
  const { payoutId } = await waiting(scene, fresh, token)
  const { durablePool } = scene.service.database
  await durablePool.query(`
    begin;
    update payout set status = 'APPROVED', next_at = null, expires_at = null where id = '${payoutId}';
    update payout set status = 'SUBMITTING', bank = '9PSB', submitted_at = now() where id = '${payoutId}';
    update payout set status = 'UNKNOWN' where id = '${payoutId}';
    commit`)
  return { payoutId }
}

const requested: Make = async ({ service, businessId }, fresh) => {
  const client = service.client(PayoutService)
  const { resolution } = await client.resolveAccountName({ businessId, ...PAYEE })
  return { businessId, reference: fresh, amountMinor: 100n, beneficiary: PAYEE, resolution }
}

/** The request with something else in it. */
const requestedWith =
  (more: object): Make =>
  async (scene, fresh) => ({ ...(await requested(scene, fresh)), ...more })

/** A payment to refund. */
const paid = async (scene: Scene, fresh: string, more = {}) => ({
  transactionId: (await pay(scene, fresh, { payer: PAYER, ...more }))!.id,
})

/** A request for a refund of a part of a new payment. */
const refunded =
  (more: object = {}): Make =>
  async (scene, fresh) => ({ ...(await paid(scene, fresh)), amountMinor: 100n, ...more })

const unmatched = (scene: Scene, fresh: string, more = {}) =>
  unmatchedPayment(scene, fresh, { payer: PAYER, ...more })

/** Another business with a payment into it. */
async function another(scene: Scene, fresh: string) {
  const { id: businessId } = await scene.service.business()
  const { accountNumber } = await openAccount({ ...scene, businessId }, fresh)
  return { businessId, ...(await paid(scene, fresh, { accountNumber })) }
}

async function pausedOne(scene: Scene, fresh: string) {
  const other = await another(scene, fresh)
  const { businessId } = other
  await payouts(scene).pausePayouts({ scope: PauseScope.BUSINESS, businessId, reason: 'x' })
  return other
}

/** A payment whose money is settled and reserved for a payout. */
async function spent(scene: Scene, fresh: string) {
  const { service } = scene
  const { businessId, transactionId } = await another(scene, fresh)
  await settleOnce(service, businessId)
  await holdPayouts(service, businessId)
  await requestPayout(service, businessId, { reference: fresh, amountMinor: 700n })
  return { transactionId }
}

/** An outgoing transfer that no payout has the reference of. */
const line = (fresh: string) => ({
  reference: fresh.slice(-64),
  amountMinor: 100n,
  state: OutgoingState.PAID,
})

const PERIOD = { from: { seconds: 1_796_000_000n }, to: { seconds: 1_796_003_600n } }
/** The name that the sandbox states for the account. */
const named = async ({ service, businessId }: Scene) => {
  const client = service.client(PayoutService)
  const { beneficiary } = await client.resolveAccountName({ businessId, ...PAYEE })
  return { ...PAYEE, accountName: beneficiary!.accountName }
}

/** A request for a batch of one payout. */
const batched = async (scene: Scene, fresh: string, amountMinor = 100n) => ({
  businessId: scene.businessId,
  reference: fresh,
  items: [{ reference: `${fresh} item`, amountMinor, beneficiary: await named(scene) }],
})

/** A batch whose payout awaits an approval. */
async function batch(scene: Scene, fresh: string, token = scene.requester) {
  const { service, businessId } = scene
  const request = await batched(scene, fresh)
  const { batch: created } = await service.client(PayoutService, token).createPayouts(request)
  const batchId = created!.id
  await until(
    async () => {
      // The instance whose banks cannot be reached may have taken it up, and waits a minute.
      await service.database.durablePool.query(
        "update payout_item set next_at = now() where batch_id = $1 and detail <> '' and next_at > now()",
        [batchId],
      )
      return payouts(scene).getBatch({ businessId, batchId })
    },
    (found) => found.batch?.approvalCount === 1,
  )
  return { businessId, batchId }
}

/** A batch of each scene: nothing more happens to it. */
const shown = new WeakMap<Scene, ReturnType<typeof batch>>()

/** A batch whose payout was rejected. */
async function rejectedBatch(scene: Scene, fresh: string) {
  const request = await batch(scene, fresh)
  await payouts(scene).rejectBatch(request)
  return request
}

/** A call of each rpc of payouts that goes well. */
export const PAYOUT_HAPPY: Readonly<Record<string, Make>> = {
  'PayoutService.ListBanks': () => ({ pageSize: 2 }),
  'PayoutService.ResolveAccountName': ({ businessId }) => ({
    businessId,
    bankCode: PAYEE.bankCode,
    accountNumber: PAYEE.accountNumber,
  }),
  'PayoutService.CreatePayout': requested,
  'PayoutService.GetPayout': ({ payoutId }) => ({ payoutId }),
  'PayoutService.ListPayouts': ({ businessId }) => ({ businessId, pageSize: 1 }),
  'PayoutService.ApprovePayout': waitingId,
  'PayoutService.RejectPayout': waitingId,
  'PayoutService.CancelPayout': waitingId,
  'PayoutService.ResolvePayout': async (scene, fresh) => ({
    ...(await unclear(scene, fresh)),
    decision: PayoutDecision.MARK_FAILED,
    note: 'not in their books',
  }),
  'PayoutService.RefundTransaction': refunded(),
  'PayoutService.RefundUnmatchedPayment': (scene, fresh) => unmatched(scene, fresh),
  'PayoutService.CreatePayouts': (scene, fresh) => batched(scene, fresh),
  'PayoutService.GetBatch': (scene) => {
    const made = shown.get(scene) ?? batch(scene, 'shown batch')
    shown.set(scene, made)
    return made
  },
  'PayoutService.ListBatches': ({ businessId }) => ({ businessId, pageSize: 1 }),
  'PayoutService.ApproveBatch': (scene, fresh) => batch(scene, fresh),
  'PayoutService.RejectBatch': (scene, fresh) => batch(scene, fresh),
  'PayoutService.ListBeneficiaries': ({ businessId }) => ({ businessId, pageSize: 1 }),
  'PayoutService.PausePayouts': async (scene) => {
    const target = { scope: PauseScope.BUSINESS, businessId: scene.otherBusinessId }
    await payouts(scene).resumePayouts(target)
    return { ...target, reason: 'drill' }
  },
  'PayoutService.ResumePayouts': async (scene) => {
    const target = {
      scope: PauseScope.BUSINESS,
      businessId: scene.otherBusinessId,
      reason: 'drill',
    }
    await payouts(scene).pausePayouts(target)
    return target
  },
  'PayoutService.ListPauses': ({ businessId }) => ({ businessId, pageSize: 1 }),
  'PayoutService.ReconcilePayouts': (_scene, fresh) => ({
    bank: Bank.BANK_9PSB,
    lines: [line(fresh)],
  }),
  'PayoutService.ListPayoutDiscrepancies': () => ({ pageSize: 1 }),
  'PayoutService.ResolvePayoutDiscrepancy': async (scene, fresh) => {
    const request = { bank: Bank.BANK_9PSB, lines: [line(fresh)] }
    const { discrepancies } = await payouts(scene).reconcilePayouts(request)
    return { discrepancyId: discrepancies[0]!.id, note: 'the rent' }
  },
  'PayoutService.GetFloat': () => ({}),
  'PayoutService.GetPayoutPolicy': ({ businessId }) => ({ businessId }),
  'PayoutService.UpdatePayoutPolicy': ({ otherBusinessId }) => ({
    policy: {
      businessId: otherBusinessId,
      payoutMaxMinor: 1_000_000n,
      fees: [{ flatMinor: 1_000n, basisPoints: 50, capMinor: 5_000n }],
    },
  }),
}

/** Rules whose settlements go to an account of another name. */
const settledTo: Make = ({ otherBusinessId }) => ({
  policy: { businessId: otherBusinessId, settleTo: { ...PAYEE, accountName: 'Zeta Yota' } },
})

/** A call for each error that those rpcs name, where the usual one does not get it. */
export const PAYOUT_ERRORS: Readonly<Record<string, Make>> = {
  'PayoutService.ResolveAccountName bank_unavailable':
    PAYOUT_HAPPY['PayoutService.ResolveAccountName']!,
  'PayoutService.CreatePayout name_mismatch': requestedWith({
    beneficiary: { ...PAYEE, accountName: 'Zeta Yota' },
  }),
  'PayoutService.CreatePayout not_found': requestedWith({ businessId: 'biz_nobody' }),
  'PayoutService.CreatePayout duplicate_reference': requestedWith({
    reference: PAYOUT_REFERENCE,
    amountMinor: 7n,
  }),
  'PayoutService.CreatePayout insufficient_balance': requestedWith({ amountMinor: 10n ** 14n }),
  'PayoutService.CreatePayout payouts_paused': async (scene, fresh) => {
    const { businessId } = await pausedOne(scene, fresh)
    return requested({ ...scene, businessId }, fresh)
  },
  'PayoutService.CreatePayout bank_unavailable': ({ businessId }, fresh) => ({
    businessId,
    reference: fresh,
    amountMinor: 100n,
    beneficiary: { ...PAYEE, accountName: 'Ada Obi' },
  }),
  'PayoutService.CreatePayouts not_found': async (scene, fresh) => ({
    ...(await batched(scene, fresh)),
    businessId: 'biz_nobody',
  }),
  'PayoutService.CreatePayouts duplicate_reference': async (scene, fresh) => {
    const request = await batched(scene, fresh)
    await payouts(scene).createPayouts(request)
    return { ...request, items: request.items.map((item) => ({ ...item, amountMinor: 7n })) }
  },
  'PayoutService.CreatePayouts insufficient_balance': (scene, fresh) =>
    batched(scene, fresh, 10n ** 14n),
  'PayoutService.CreatePayouts payouts_paused': async (scene, fresh) => {
    const { businessId } = await pausedOne(scene, fresh)
    return batched({ ...scene, businessId }, fresh)
  },
  'PayoutService.ApproveBatch own_payout': (scene, fresh) => batch(scene, fresh, ADMIN_TOKEN),
  'PayoutService.ApproveBatch payout_not_pending': rejectedBatch,
  'PayoutService.RejectBatch payout_not_pending': rejectedBatch,
  'PayoutService.ApprovePayout own_payout': (scene, fresh) => waiting(scene, fresh, ADMIN_TOKEN),
  'PayoutService.ApprovePayout payout_not_pending': rejected,
  'PayoutService.RejectPayout payout_not_pending': (scene, fresh) => unclear(scene, fresh),
  'PayoutService.CancelPayout payout_not_pending': rejected,
  'PayoutService.ResolvePayout own_payout': async (scene, fresh) => ({
    ...(await unclear(scene, fresh, ADMIN_TOKEN)),
    decision: PayoutDecision.MARK_FAILED,
    note: 'x',
  }),
  'PayoutService.ResolvePayout payout_not_pending': async (scene, fresh) => ({
    ...(await waiting(scene, fresh)),
    decision: PayoutDecision.MARK_PAID,
    note: 'x',
  }),
  'PayoutService.ResolvePayout resend_not_safe': async (scene, fresh) => ({
    ...(await unclear(scene, fresh)),
    decision: PayoutDecision.RESEND,
    note: 'x',
  }),
  'PayoutService.RefundTransaction name_mismatch': refunded({
    beneficiary: { ...PAYEE, accountName: 'Zeta Yota' },
  }),
  'PayoutService.RefundTransaction duplicate_reference': refunded({ reference: PAYOUT_REFERENCE }),
  'PayoutService.RefundTransaction refund_exceeds_payment': refunded({ amountMinor: 701n }),
  'PayoutService.RefundTransaction insufficient_balance': spent,
  'PayoutService.RefundTransaction not_refundable': (scene, fresh) =>
    paid(scene, fresh, { status: TransactionStatus.PENDING }),
  'PayoutService.RefundTransaction payouts_paused': async (scene, fresh) => {
    const { transactionId } = await pausedOne(scene, fresh)
    return { transactionId }
  },
  'PayoutService.RefundTransaction bank_unavailable': refunded(),
  'PayoutService.RefundUnmatchedPayment name_mismatch': async (scene, fresh) => ({
    ...(await unmatched(scene, fresh)),
    beneficiary: { ...PAYEE, accountName: 'Zeta Yota' },
  }),
  'PayoutService.RefundUnmatchedPayment not_refundable': (scene, fresh) =>
    unmatched(scene, fresh, { status: TransactionStatus.PENDING }),
  'PayoutService.RefundUnmatchedPayment payment_resolved': async (scene, fresh) => {
    const payment = await unmatched(scene, fresh)
    const request = { ...payment, note: 'sent back' }
    await scene.service.client(ReconciliationService).returnUnmatchedPayment(request)
    return payment
  },
  'PayoutService.RefundUnmatchedPayment bank_unavailable': (scene, fresh) =>
    unmatched(scene, fresh),
  'PayoutService.ReconcilePayouts validation_failed': () => ({ bank: Bank.BANK_9PSB, ...PERIOD }),
  'PayoutService.ReconcilePayouts bank_unavailable': () => ({
    bank: Bank.BANK_SAFEHAVEN,
    ...PERIOD,
  }),
  'PayoutService.ListPauses validation_failed': () => ({ pageToken: 'garbage' }),
  'PayoutService.GetPayoutPolicy validation_failed': () => ({ businessId: 'x'.repeat(61) }),
  'PayoutService.UpdatePayoutPolicy name_mismatch': settledTo,
  'PayoutService.UpdatePayoutPolicy bank_unavailable': settledTo,
  'PayoutService.UpdatePayoutPolicy not_found': () => ({ policy: { businessId: 'biz_nobody' } }),
  'PayoutService.UpdatePayoutPolicy validation_failed': ({ businessId }) => ({
    policy: { businessId, fees: [{ flatMinor: 1n }, { flatMinor: 2n }] },
  }),
}
