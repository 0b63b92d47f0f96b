import { AccountService } from '../../../gen/inflow/account/v1/account_service_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { WebhookService } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { MAGIC_PHONES } from '../../../src/banks/sandbox.ts'
import { BANK_ERRORS, openAccount, pendingAccount } from './bank-rows.ts'
import { CUSTOMER, DEAF_URL, type Make, type Request, type Scene } from './scene.ts'
import { newDelivery, pausedDelivery } from './webhook-rows.ts'

const invalid =
  (request: Request): Make =>
  () =>
    request
const PHONE = { phone: '08087654321' }

const nameOf = async (made: Request | Promise<Request>) => ({
  reference: (await made)['reference'] as string,
})
const opened: Make = (scene, fresh) => nameOf(openAccount(scene, fresh))
const pending: Make = (scene, fresh) => nameOf(pendingAccount(scene, fresh))
/** An account that a real bank opened, which is not connected. */
const away: Make = (scene, fresh) =>
  nameOf(BANK_ERRORS['AccountService.CloseAccount bank_unavailable']!(scene, fresh))

/** A test account of the scene's business. */
async function testAccount({ service, businessId }: Scene, fresh: string, phone = CUSTOMER.phone) {
  const request = { businessId, reference: fresh, bank: Bank.BANK_9PSB, test: true }
  await service
    .client(AccountService)
    .createAccount({ ...request, ...CUSTOMER, phone })
    .catch(() => undefined)
  return { reference: fresh, amount: '1500.5' }
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
  'ThirdPartyService.SimulatePayment': (scene, fresh) => testAccount(scene, fresh),
  'ThirdPartyService.RequeryTransaction': opened,
}

/** A call for each error that these methods name. */
export const THIRD_PARTY_ERRORS: Readonly<Record<string, Make>> = {
  'ThirdPartyService.UpdateVirtualAccount validation_failed': invalid({ reference: 'order-1' }),
  'ThirdPartyService.UpdateVirtualAccount not_found': invalid({ reference: 'nothing', ...PHONE }),
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
  'ThirdPartyService.CloseVirtualAccount validation_failed': invalid({}),
  'ThirdPartyService.CloseVirtualAccount not_found': invalid({ reference: 'nothing' }),
  'ThirdPartyService.CloseVirtualAccount account_pending': pending,
  'ThirdPartyService.CloseVirtualAccount bank_unavailable': away,
  'ThirdPartyService.ListVirtualAccounts validation_failed': invalid({
    pageSize: 201,
    status: 'x',
  }),
  'ThirdPartyService.ListSettlements validation_failed': invalid({ pageToken: 'garbage' }),
  'ThirdPartyService.GetStatement validation_failed': invalid({ from: 'today', to: 'tomorrow' }),
  'ThirdPartyService.CreateWebhook validation_failed': invalid({ url: 'https://10.0.0.1/' }),
  'ThirdPartyService.CreateWebhook duplicate_webhook': async () => ({ url: DEAF_URL }),
  // With the test key, in whose mode nothing else makes endpoints.
  'ThirdPartyService.CreateWebhook too_many_endpoints': async ({ service, businessId }) => {
    const webhooks = service.client(WebhookService)
    const url = 'https://example.com/'
    for (let i = 0; i < 50; i++) await webhooks.createEndpoint({ businessId, url, test: true })
    return { url: 'https://example.com/another' }
  },
  'ThirdPartyService.UpdateWebhook validation_failed': ({ endpointId }) => ({
    endpointId,
    allKinds: true,
    kinds: ['PAYMENT_NOTIFICATION'],
  }),
  'ThirdPartyService.UpdateWebhook not_found': invalid({ endpointId: 'ep_nobody' }),
  'ThirdPartyService.DeleteWebhook validation_failed': invalid({}),
  'ThirdPartyService.DeleteWebhook not_found': invalid({ endpointId: 'ep_nobody' }),
  'ThirdPartyService.TestWebhook validation_failed': invalid({}),
  'ThirdPartyService.TestWebhook not_found': invalid({ endpointId: 'ep_nobody' }),
  'ThirdPartyService.TestWebhook endpoint_disabled': disabledWebhook,
  'ThirdPartyService.ListDeliveries validation_failed': invalid({ pageSize: -1 }),
  'ThirdPartyService.Redeliver validation_failed': invalid({}),
  'ThirdPartyService.Redeliver not_found': invalid({ deliveryId: 'dlv_nobody' }),
  'ThirdPartyService.Redeliver endpoint_disabled': async (scene) => ({
    deliveryId: await newDelivery(scene, (await disabledWebhook(scene)).endpointId, 1),
  }),
  'ThirdPartyService.Redeliver event_expired': async (scene) => ({
    deliveryId: await newDelivery(scene, (await newWebhook(scene)).endpointId, 1_000_000_000),
  }),
  'ThirdPartyService.SkipDelivery validation_failed': invalid({}),
  'ThirdPartyService.SkipDelivery not_found': invalid({ deliveryId: 'dlv_nobody' }),
  'ThirdPartyService.SkipDelivery delivery_completed': async (scene) => ({
    deliveryId: await newDelivery(scene, (await newWebhook(scene)).endpointId, 1),
  }),
  'ThirdPartyService.SimulatePayment validation_failed': invalid({ amount: '1.005' }),
  'ThirdPartyService.SimulatePayment not_found': invalid({ reference: 'nothing', amount: '1' }),
  'ThirdPartyService.SimulatePayment not_sandbox': invalid({ reference: 'order-1', amount: '1' }),
  'ThirdPartyService.SimulatePayment account_pending': (scene, fresh) =>
    testAccount(scene, fresh, MAGIC_PHONES.refuses),
  'ThirdPartyService.RequeryTransaction validation_failed': invalid({}),
  'ThirdPartyService.RequeryTransaction not_found': invalid({ reference: 'nothing' }),
  'ThirdPartyService.RequeryTransaction account_pending': pending,
  // Of an instance whose banks list nothing.
  'ThirdPartyService.RequeryTransaction requery_unsupported': away,
  'ThirdPartyService.RequeryTransaction bank_unavailable': away,
}
