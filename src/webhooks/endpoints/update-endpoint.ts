import { appendAudit } from '../../auth/audit/append-audit-entry.ts'
import type { Actor } from '../../auth/caller.ts'
import { invalidFields } from '../../core/errors.ts'
import type { ShownEndpoint } from '../message.ts'
import type { Endpoint } from './endpoint.entity.ts'
import type { EndpointContext } from './endpoint-context.ts'
import { urlRefusal } from './endpoint-url.ts'
import { lockEndpoint } from './find-endpoint.ts'
import { liveSecrets } from './list-endpoints.ts'

/** What to change; what is absent stays. */
interface EndpointChange {
  readonly endpointId: string
  readonly url?: string | undefined
  readonly kinds: readonly string[]
  readonly allKinds: boolean
  readonly description?: string | undefined
  readonly concurrency?: number | undefined
  readonly enabled?: boolean | undefined
}

/**
 * Changes an endpoint.
 *
 * @throws Fault validation_failed (the URL), not_found
 */
export async function updateEndpoint(
  context: EndpointContext,
  change: EndpointChange,
  actor: Actor,
): Promise<ShownEndpoint> {
  const refusal = change.url === undefined ? undefined : urlRefusal(change.url, context.rules)
  if (refusal) throw invalidFields([{ field: 'url', message: refusal }])
  const nowMs = context.clock.now()
  const updated = await context.orm.em.fork().transactional(async (em) => {
    const endpoint = await lockEndpoint(em, change.endpointId)
    const { url, description, concurrency, enabled } = change
    if (url !== undefined && url !== endpoint.url) {
      endpoint.url = url
      forget(endpoint)
    }
    if (description !== undefined) endpoint.description = description
    if (concurrency !== undefined) endpoint.concurrency = concurrency
    if (change.allKinds || change.kinds.length > 0) endpoint.kinds = [...change.kinds]
    if (enabled === true) enable(endpoint)
    if (enabled === false && endpoint.disabledAt === null) {
      endpoint.disabledAt = new Date(nowMs)
      endpoint.disabledReason = 'REQUESTED'
    }
    const secrets = await liveSecrets(em, [endpoint.id], nowMs)
    await appendAudit(em, actor, {
      action: 'endpoint.update',
      targetId: endpoint.id,
      businessId: endpoint.business,
      details: toDetails(change),
    })
    return { endpoint, secrets }
  })
  if (change.enabled === true) context.due()
  return updated
}

/** What was asked for. Of the address only its origin, as receivers put secrets into paths. */
function toDetails(change: EndpointChange): Readonly<Record<string, unknown>> {
  const { url, kinds, allKinds, description, concurrency, enabled } = change
  return {
    ...(url !== undefined && { origin: new URL(url).origin }),
    ...((allKinds || kinds.length > 0) && { kinds }),
    ...(description !== undefined && { description }),
    ...(concurrency !== undefined && { concurrency }),
    ...(enabled !== undefined && { enabled }),
  }
}

function enable(endpoint: Endpoint): void {
  endpoint.disabledAt = null
  endpoint.disabledReason = null
  forget(endpoint)
}

/** A fresh start: what it did elsewhere, or before it was disabled, is not held against it. */
function forget(endpoint: Endpoint): void {
  endpoint.failingSince = null
  endpoint.warnedAt = null
}
