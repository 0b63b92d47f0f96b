import { PayoutService } from '../../../gen/inflow/payout/v1/payout_service_pb.ts'
import { SandboxService } from '../../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { SettlementService } from '../../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { TransactionStatus } from '../../../gen/inflow/transaction/v1/transaction_pb.ts'
import { until } from '../rest/rest.ts'
import { awayAccount, pendingAccount } from './bank-rows.ts'
import {
  DEAF_URL,
  idOf,
  invalid,
  type Make,
  openAccount,
  PAYEE,
  PAYER,
  PAYOUT_REFERENCE,
  pay,
  requestPayout,
  type Scene,
  takeAsUnknown,
} from './scene.ts'
import {
  disabledEndpoint,
  fillEndpoints,
  newDelivery,
  newEndpoint,
  pausedDelivery,
} from './webhook-rows.ts'

const PHONE = { phone: '08087654321' }

const opened: Make = async (scene, fresh) => ({
  reference: (await openAccount(scene, fresh)).merchantReference,
})
const pending: Make = async (scene, fresh) => {
  await pendingAccount(scene, fresh)
  return { reference: fresh }
}
const away: Make = async (scene, fresh) => {
  await awayAccount(scene, fresh)
  return { reference: fresh }
}

const newWebhook: Make = async (scene) => ({
  endpointId: await newEndpoint(scene, scene.businessId),
})
const disabledWebhook: Make = async (scene) => ({
  endpointId: await disabledEndpoint(scene, scene.businessId),
})

/** The account that payouts go to, as requests name it. */
export const TO = { bankCode: PAYEE.bankCode, accountNumber: PAYEE.accountNumber }

/** The name of the account that payouts go to, and a resolution for those of a business. */
async function resolved({ service }: Scene, businessId: string) {
  const client = service.client(PayoutService)
  const { beneficiary, resolution } = await client.resolveAccountName({ businessId, ...TO })
  return { accountName: beneficiary!.accountName, resolution }
}

const newPayout =
  (more: object = {}): Make =>
  async (scene, reference) => {
    const { resolution } = await resolved(scene, scene.businessId)
    return { reference, amount: '1', ...TO, resolution, ...more }
  }

/** Refunds of new payments of 7 naira. */
const refund =
  (more: object = {}, payment: object = {}): Make =>
  async (scene, fresh) => {
    await pay(scene, fresh, { payer: PAYER, ...payment })
    return { sessionId: idOf(fresh), amount: '1', ...more }
  }

/** A payment of test mode whose money is settled and reserved for a payout. */
const spentInTestMode: Make = async (scene, fresh) => {
  const { service, businessId } = scene
  const sessionId = idOf(fresh)
  const { accountNumber } = await openAccount(scene, fresh, { live: false })
  const transfer = { accountNumber, sessionId, amountMinor: 700n }
  await service.client(SandboxService).simulateTransfer(transfer)
  const settlements = service.client(SettlementService)
  const inTestMode = { businessId, live: false }
  await until(
    () => settlements.settle({ ...inTestMode, force: true }),
    ({ settlements: made }) => made.length === 1,
  )
  const { balance } = await settlements.getBalance(inTestMode)
  const { accountName } = await resolved(scene, businessId)
  await service.client(PayoutService).createPayout({
    ...inTestMode,
    reference: fresh,
    amountMinor: balance!.availableMinor,
    beneficiary: { ...PAYEE, accountName },
  })
  return { sessionId, ...TO, accountName }
}

/** A call of each method that needs a key with scopes, which goes well. */
export const THIRD_PARTY_HAPPY: Readonly<Record<string, Make>> = {
  'ThirdPartyService.UpdateVirtualAccount': async (scene, fresh) => ({
    ...(await opened(scene, fresh)),
    ...PHONE,
  }),
  'ThirdPartyService.UpgradeVirtualAccount': async (scene, fresh) => ({
    ...(await opened(scene, fresh)),
    bvn: '22212345678',
  }),
  'ThirdPartyService.CloseVirtualAccount': opened,
  'ThirdPartyService.ListVirtualAccounts': () => ({ pageSize: 1, status: 'ACTIVE' }),
  'ThirdPartyService.ListSettlements': () => ({ pageSize: 1 }),
  'ThirdPartyService.GetStatement': () => ({ pageSize: 1, to: '2099-01-01 00:00:00' }),
  'ThirdPartyService.ListBanks': () => ({ pageSize: 2 }),
  'ThirdPartyService.ResolveAccountName': () => TO,
  'ThirdPartyService.CreatePayout': newPayout(),
  'ThirdPartyService.GetPayout': () => ({ reference: PAYOUT_REFERENCE }),
  'ThirdPartyService.ListPayouts': () => ({ pageSize: 1, status: 'PENDING_APPROVAL' }),
  'ThirdPartyService.CancelPayout': async (scene, reference) => {
    const { resolution } = await resolved(scene, scene.businessId)
    const request = { reference, amount: '1', resolution }
    const { bankCode: bank_code, accountNumber: account_number } = TO
    const { body } = await scene.service.post('createPayout/', scene.scopedKey, {
      ...request,
      bank_code,
      account_number,
    })
    await takeAsUnknown(scene.service, body.data.payout_id)
    return { reference }
  },
  'ThirdPartyService.RefundTransaction': refund(),
  'ThirdPartyService.CreateWebhook': (_scene, fresh) => ({
    url: `${DEAF_URL}?${fresh.replaceAll(' ', '-')}`,
    kinds: ['PAYMENT_NOTIFICATION'],
  }),
  'ThirdPartyService.ListWebhooks': () => ({}),
  'ThirdPartyService.UpdateWebhook': async (scene) => ({
    endpointId: await newEndpoint(scene, scene.businessId),
    kinds: ['PAYMENT_REVERSED'],
    enabled: false,
  }),
  'ThirdPartyService.DeleteWebhook': newWebhook,
  'ThirdPartyService.TestWebhook': newWebhook,
  'ThirdPartyService.ListDeliveries': ({ endpointId }) => ({ endpointId, pageSize: 1 }),
  'ThirdPartyService.Redeliver': ({ failingDeliveryId }) => ({ deliveryId: failingDeliveryId }),
  'ThirdPartyService.SkipDelivery': async (scene) => ({
    deliveryId: await pausedDelivery(scene, await disabledEndpoint(scene, scene.businessId)),
  }),
  'ThirdPartyService.SimulatePayment': async (scene, fresh) => {
    await openAccount(scene, fresh, { live: false })
    return { reference: fresh, amount: '1500.5' }
  },
  'ThirdPartyService.RequeryTransaction': opened,
}

/** A call for each error that these methods name, where the usual one does not get it. */
export const THIRD_PARTY_ERRORS: Readonly<Record<string, Make>> = {
  'ThirdPartyService.UpdateVirtualAccount validation_failed': invalid({ reference: 'order-1' }),
  'ThirdPartyService.UpdateVirtualAccount account_pending': async (scene, fresh) => ({
    ...(await pending(scene, fresh)),
    ...PHONE,
  }),
  'ThirdPartyService.UpgradeVirtualAccount validation_failed': invalid({ customer: 'no address' }),
  'ThirdPartyService.UpgradeVirtualAccount not_found': invalid({
    customer: 'unknown@example.com',
    idType: 'nin',
    idNumber: '12345678901',
  }),
  'ThirdPartyService.UpgradeVirtualAccount account_pending': async (scene, fresh) => ({
    ...(await pending(scene, fresh)),
    bvn: '22212345678',
  }),
  'ThirdPartyService.CloseVirtualAccount account_pending': pending,
  'ThirdPartyService.CloseVirtualAccount bank_unavailable': away,
  'ThirdPartyService.ListSettlements validation_failed': invalid({ pageToken: 'garbage' }),
  'ThirdPartyService.GetStatement validation_failed': invalid({ from: 'today', to: 'tomorrow' }),
  'ThirdPartyService.ListBanks validation_failed': invalid({ pageToken: 'garbage' }),
  'ThirdPartyService.ResolveAccountName bank_unavailable': invalid(TO),
  'ThirdPartyService.CreatePayout name_mismatch': newPayout({
    resolution: '',
    accountName: 'Zeta Yota',
  }),
  'ThirdPartyService.CreatePayout duplicate_reference': newPayout({
    reference: PAYOUT_REFERENCE,
    amount: '2',
  }),
  'ThirdPartyService.CreatePayout insufficient_balance': newPayout({ amount: '1000000000' }),
  'ThirdPartyService.CreatePayout payouts_paused': async (scene, reference) => {
    const { resolution } = await resolved(scene, scene.paused.businessId)
    return { reference, amount: '1', ...TO, resolution }
  },
  'ThirdPartyService.CreatePayout bank_unavailable': (_scene, reference) => ({
    reference,
    amount: '1',
    ...TO,
    accountName: 'Ada Obi',
  }),
  'ThirdPartyService.CancelPayout permission_denied': async (
    { service, businessId },
    reference,
  ) => {
    await requestPayout(service, businessId, { reference })
    return { reference }
  },
  'ThirdPartyService.CancelPayout payout_not_pending': async (scene, reference) => {
    const { service, businessId } = scene
    const payoutId = await requestPayout(service, businessId, { reference })
    await service.client(PayoutService).rejectPayout({ payoutId })
    return { reference }
  },
  'ThirdPartyService.RefundTransaction name_mismatch': refund({ ...TO, accountName: 'Zeta Yota' }),
  'ThirdPartyService.RefundTransaction duplicate_reference': refund({
    reference: PAYOUT_REFERENCE,
  }),
  'ThirdPartyService.RefundTransaction refund_exceeds_payment': refund({ amount: '7.01' }),
  'ThirdPartyService.RefundTransaction insufficient_balance': spentInTestMode,
  'ThirdPartyService.RefundTransaction not_refundable': refund(
    {},
    { status: TransactionStatus.PENDING },
  ),
  'ThirdPartyService.RefundTransaction payouts_paused': ({ paused: { sessionId } }) => ({
    sessionId,
  }),
  'ThirdPartyService.RefundTransaction bank_unavailable': refund(),
  'ThirdPartyService.CreateWebhook validation_failed': invalid({ url: 'https://10.0.0.1/' }),
  'ThirdPartyService.CreateWebhook duplicate_webhook': invalid({ url: DEAF_URL }),
  // With the test key, in whose mode nothing else makes endpoints.
  'ThirdPartyService.CreateWebhook too_many_endpoints': async ({ service, businessId }) => ({
    url: (await fillEndpoints(service, { businessId, live: false })).url,
  }),
  'ThirdPartyService.UpdateWebhook validation_failed': ({ endpointId }) => ({
    endpointId,
    allKinds: true,
    kinds: ['PAYMENT_NOTIFICATION'],
  }),
  'ThirdPartyService.UpdateWebhook duplicate_webhook': async (scene) => ({
    endpointId: await newEndpoint(scene, scene.businessId, `${DEAF_URL}?another`),
    url: DEAF_URL,
  }),
  'ThirdPartyService.TestWebhook endpoint_disabled': disabledWebhook,
  'ThirdPartyService.Redeliver endpoint_disabled': async (scene) => ({
    deliveryId: await newDelivery(scene, await disabledEndpoint(scene, scene.businessId), 1),
  }),
  'ThirdPartyService.Redeliver event_expired': async (scene) => ({
    deliveryId: await newDelivery(scene, await newEndpoint(scene, scene.businessId), 1_000_000_000),
  }),
  'ThirdPartyService.SkipDelivery delivery_completed': async (scene) => ({
    deliveryId: await newDelivery(scene, await newEndpoint(scene, scene.businessId), 1),
  }),
  'ThirdPartyService.SimulatePayment validation_failed': invalid({ amount: '1.005' }),
  'ThirdPartyService.SimulatePayment not_found': invalid({ reference: 'nothing', amount: '1' }),
  'ThirdPartyService.SimulatePayment not_sandbox': invalid({ reference: 'order-1', amount: '1' }),
  'ThirdPartyService.SimulatePayment account_pending': async (scene, fresh) => {
    await pendingAccount(scene, fresh, { live: false })
    return { reference: fresh, amount: '1' }
  },
  'ThirdPartyService.RequeryTransaction account_pending': pending,
  // Of an instance whose banks list nothing.
  'ThirdPartyService.RequeryTransaction requery_unsupported': away,
  'ThirdPartyService.RequeryTransaction bank_unavailable': away,
}
