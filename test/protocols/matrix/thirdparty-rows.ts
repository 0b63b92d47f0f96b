import { WebhookService } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { awayAccount, pendingAccount } from './bank-rows.ts'
import { DEAF_URL, type Make, openAccount, type Request, type Scene } from './scene.ts'
import { fillEndpoints, newDelivery, pausedDelivery } from './webhook-rows.ts'

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

/** An endpoint of the scene's business. */
async function newWebhook({ service, businessId }: Scene): Promise<{ endpointId: string }> {
  const { endpoint } = await service
    .client(WebhookService)
    .createEndpoint({ businessId, url: DEAF_URL })
  return { endpointId: endpoint!.id }
}

const disabledWebhook = async (scene: Scene) => {
  const { endpointId } = await newWebhook(scene)
  await scene.service.client(WebhookService).updateEndpoint({ endpointId, enabled: false })
  return { endpointId }
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
  'ThirdPartyService.CreateWebhook': (_scene, fresh) => ({
    url: `${DEAF_URL}?${fresh.replaceAll(' ', '-')}`,
    kinds: ['PAYMENT_NOTIFICATION'],
  }),
  'ThirdPartyService.ListWebhooks': () => ({}),
  'ThirdPartyService.UpdateWebhook': async (scene) => ({
    ...(await newWebhook(scene)),
    kinds: ['PAYMENT_REVERSED'],
    enabled: false,
  }),
  'ThirdPartyService.DeleteWebhook': newWebhook,
  'ThirdPartyService.TestWebhook': newWebhook,
  'ThirdPartyService.ListDeliveries': ({ endpointId }) => ({ endpointId, pageSize: 1 }),
  'ThirdPartyService.Redeliver': ({ failingDeliveryId }) => ({ deliveryId: failingDeliveryId }),
  'ThirdPartyService.SkipDelivery': async (scene) => ({
    deliveryId: await pausedDelivery(scene, (await disabledWebhook(scene)).endpointId),
  }),
  'ThirdPartyService.SimulatePayment': async (scene, fresh) => {
    await openAccount(scene, fresh, { live: false })
    return { reference: fresh, amount: '1500.5' }
  },
  'ThirdPartyService.RequeryTransaction': opened,
}

const invalid =
  (request: Request): Make =>
  () =>
    request

/** A call for each error that these methods name, where the usual one does not get it. */
export const THIRD_PARTY_ERRORS: Readonly<Record<string, Make>> = {
  'ThirdPartyService.UpdateVirtualAccount validation_failed': invalid({ reference: 'order-1' }),
  'ThirdPartyService.UpdateVirtualAccount account_pending': async (scene, fresh) => ({
    ...(await pending(scene, fresh)),
    ...PHONE,
  }),
  'ThirdPartyService.UpgradeVirtualAccount validation_failed': invalid({ customer: 'no address' }),
  'ThirdPartyService.UpgradeVirtualAccount not_found': invalid({
    ...{ customer: 'unknown@example.com', idType: 'nin', idNumber: '12345678901' },
  }),
  'ThirdPartyService.UpgradeVirtualAccount account_pending': async (scene, fresh) => ({
    ...(await pending(scene, fresh)),
    bvn: '22212345678',
  }),
  'ThirdPartyService.CloseVirtualAccount account_pending': pending,
  'ThirdPartyService.CloseVirtualAccount bank_unavailable': away,
  'ThirdPartyService.ListSettlements validation_failed': invalid({ pageToken: 'garbage' }),
  'ThirdPartyService.GetStatement validation_failed': invalid({ from: 'today', to: 'tomorrow' }),
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
  'ThirdPartyService.TestWebhook endpoint_disabled': disabledWebhook,
  'ThirdPartyService.Redeliver endpoint_disabled': async (scene) => ({
    deliveryId: await newDelivery(scene, (await disabledWebhook(scene)).endpointId, 1),
  }),
  'ThirdPartyService.Redeliver event_expired': async (scene) => ({
    deliveryId: await newDelivery(scene, (await newWebhook(scene)).endpointId, 1_000_000_000),
  }),
  'ThirdPartyService.SkipDelivery delivery_completed': async (scene) => ({
    deliveryId: await newDelivery(scene, (await newWebhook(scene)).endpointId, 1),
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
