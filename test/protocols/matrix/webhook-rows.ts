import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { EndpointProfile } from '../../../gen/inflow/webhook/v1/endpoint_pb.ts'
import { WebhookService } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { newId } from '../../../src/core/ids.ts'
import { startReceiver } from '../../support/receiver.ts'
import type { TestService } from '../../support/service.ts'
import { DEAF_URL, type Make, type Scene } from './scene.ts'

/** Creates an endpoint, by default of a business that has no events. */
export async function newEndpoint(
  { service, otherBusinessId }: Scene,
  businessId = otherBusinessId,
  url = DEAF_URL,
): Promise<string> {
  const { endpoint } = await service.client(WebhookService).createEndpoint({ businessId, url })
  return endpoint!.id
}

export async function disabledEndpoint(scene: Scene, businessId?: string): Promise<string> {
  const endpointId = await newEndpoint(scene, businessId)
  await scene.service.client(WebhookService).updateEndpoint({ endpointId, enabled: false })
  return endpointId
}

/** A delivery as the dispatcher makes one, of an event at a place of the log. */
export async function newDelivery({ service }: Scene, endpointId: string, position: number) {
  const id = newId('dlv', Date.now())
  await service.database.durablePool.query(
    `insert into webhook_delivery (id, endpoint_id, position, state, attempts, due_at, claims,
        created_at, completed_at)
      values ($1, $2, $3, 'DELIVERED', 1, now(), 1, now(), now())`,
    [id, endpointId, position],
  )
  return id
}

/** A delivery that waits for as long as its endpoint is disabled. */
export async function pausedDelivery(scene: Scene, endpointId: string): Promise<string> {
  const id = await newDelivery(scene, endpointId, 1)
  await scene.service.database.durablePool.query(
    "update webhook_delivery set state = 'PENDING', completed_at = null where id = $1",
    [id],
  )
  return id
}

/** Makes as many endpoints as one may have. @returns the request of one more */
export async function fillEndpoints(
  service: TestService,
  of: { readonly businessId: string; readonly live?: boolean },
) {
  const { businessId, live = true } = of
  // Of a kind that nothing here causes: they have no secrets to sign with.
  await service.database.durablePool.query(
    `insert into webhook_endpoint (id, business_id, live, url, kinds, description, concurrency, after_position, created_at)
      select 'ep_' || $1 || n, $1, $2, 'https://example.com/', '{ENDPOINT_FAILING}', '', 10, 0, now()
      from generate_series(1, 50) as n`,
    [businessId, live],
  )
  return { businessId, url: 'https://example.com/another' }
}

/** A call of each rpc that goes well. */
export const WEBHOOK_HAPPY: Readonly<Record<string, Make>> = {
  'WebhookService.CreateEndpoint': ({ otherBusinessId }) => ({
    businessId: otherBusinessId,
    url: DEAF_URL,
    kinds: ['PAYMENT_NOTIFICATION'],
  }),
  'WebhookService.UpdateEndpoint': async (scene) => ({
    endpointId: await newEndpoint(scene),
    description: 'for tests',
    enabled: false,
  }),
  'WebhookService.ListEndpoints': ({ businessId }) => ({ businessId }),
  'WebhookService.GetEndpointStatistics': ({ businessId, endpointId }) => ({
    businessId,
    endpointIds: [endpointId],
  }),
  'WebhookService.DeleteEndpoint': async (scene) => ({ endpointId: await newEndpoint(scene) }),
  'WebhookService.RotateSecret': async (scene) => ({ endpointId: await newEndpoint(scene) }),
  'WebhookService.SwitchSecret': async (scene) => {
    const { businessId, service } = scene
    const webhooks = service.client(WebhookService)
    const endpoint = { businessId, url: 'https://example.com/', profile: EndpointProfile.WIAXY }
    const endpointId = (await webhooks.createEndpoint(endpoint)).endpoint!.id
    await webhooks.rotateSecret({ endpointId })
    return { endpointId }
  },
  'WebhookService.SendTestEvent': async (scene) => ({ endpointId: await newEndpoint(scene) }),
  'WebhookService.Rehearse': async ({ otherBusinessId, service }) => {
    const request = { businessId: otherBusinessId, url: DEAF_URL, live: false }
    const { endpoint } = await service.client(WebhookService).createEndpoint(request)
    return { endpointId: endpoint!.id }
  },
  'WebhookService.ListDeliveries': ({ endpointId }) => ({ endpointId, pageSize: 1 }),
  'WebhookService.GetDelivery': ({ deliveryId }) => ({ deliveryId }),
  'WebhookService.Redeliver': ({ failingDeliveryId }) => ({ deliveryId: failingDeliveryId }),
  'WebhookService.ListEventKinds': () => ({}),
  'WebhookService.SkipDelivery': async (scene) => ({
    deliveryId: await pausedDelivery(scene, await disabledEndpoint(scene)),
  }),
  'WebhookService.Recover': ({ endpointId }) => ({
    endpointId,
    since: timestampFromMs(Date.now() + 60_000),
  }),
}

const disabled: Make = async (scene) => ({ endpointId: await disabledEndpoint(scene) })

/** A call for each error that an rpc names, where the usual one does not get it. */
export const WEBHOOK_ERRORS: Readonly<Record<string, Make>> = {
  'WebhookService.CreateEndpoint validation_failed': ({ businessId }) => ({
    businessId,
    url: 'https://10.0.0.1/',
  }),
  'WebhookService.CreateEndpoint too_many_endpoints': async ({ service }) =>
    fillEndpoints(service, { businessId: (await service.business()).id }),
  'WebhookService.UpdateEndpoint validation_failed': ({ endpointId }) => ({
    endpointId,
    allKinds: true,
    kinds: ['PAYMENT_NOTIFICATION'],
  }),
  'WebhookService.RotateSecret validation_failed': ({ endpointId }) => ({
    endpointId,
    overlap: { seconds: -1n },
  }),
  'WebhookService.RotateSecret too_many_secrets': async (scene) => {
    const endpointId = await newEndpoint(scene)
    const webhooks = scene.service.client(WebhookService)
    for (let live = 1; live < 5; live++) await webhooks.rotateSecret({ endpointId })
    return { endpointId }
  },
  'WebhookService.SwitchSecret no_next_secret': async (scene) => ({
    endpointId: await newEndpoint(scene),
  }),
  'WebhookService.SendTestEvent endpoint_disabled': disabled,
  'WebhookService.Rehearse validation_failed': ({ businessId }) => ({ businessId }),
  'WebhookService.Rehearse not_rehearsable': async (scene) => ({
    endpointId: await newEndpoint(scene),
  }),
  'WebhookService.Rehearse too_many_rehearsals': async ({ service }) => {
    const { id: businessId } = await service.business()
    const slow = await startReceiver()
    slow.answer('hang')
    const webhooks = service.client(WebhookService)
    const request = { businessId, url: slow.url, live: false }
    const { endpoint } = await webhooks.createEndpoint(request)
    const target = { endpointId: endpoint!.id }
    // It goes on until its first payment was not answered in time.
    const running = webhooks.rehearse(target)[Symbol.asyncIterator]().next()
    void running.catch(() => undefined).finally(slow.close)
    await slow.next()
    return target
  },
  'WebhookService.Redeliver endpoint_disabled': async (scene) => ({
    deliveryId: await newDelivery(scene, await disabledEndpoint(scene), 1),
  }),
  'WebhookService.Redeliver event_expired': async (scene) => ({
    deliveryId: await newDelivery(scene, await newEndpoint(scene), 1_000_000_000),
  }),
  'WebhookService.SkipDelivery delivery_completed': async (scene) => ({
    deliveryId: await newDelivery(scene, await newEndpoint(scene), 1),
  }),
  'WebhookService.Recover validation_failed': ({ endpointId }) => ({ endpointId }),
  'WebhookService.Recover endpoint_disabled': async (scene) => ({
    endpointId: await disabledEndpoint(scene),
    since: timestampFromMs(0),
  }),
}
