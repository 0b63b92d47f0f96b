import { appendAudit } from '../../auth/audit/append-audit-entry.ts'
import type { Actor } from '../../auth/caller.ts'
import { invalidFields } from '../../core/errors.ts'
import { applyConnection, connectionDetails } from '../connections/apply-connection.ts'
import type { ConnectionChange } from '../connections/connection.ts'
import { firstPending } from '../deliveries/claim-ordered.ts'
import type { EndpointWithSecrets } from '../message.ts'
import { endpointFaults } from './create-endpoint.ts'
import type { Endpoint } from './endpoint.entity.ts'
import type { EndpointContext } from './endpoint-context.ts'
import { lockEndpoint } from './find-endpoint.ts'
import { activeSecrets } from './list-endpoints.ts'
import { applyFormat, type FormatChange, formatDetails, WIAXY_KINDS } from './request-format.ts'

/** The fields to change; absent fields keep their values. */
interface EndpointChange {
  readonly endpointId: string
  readonly url?: string | undefined
  readonly kinds: readonly string[]
  readonly allKinds: boolean
  readonly description?: string | undefined
  readonly concurrency?: number | undefined
  readonly enabled?: boolean | undefined
  readonly connection: ConnectionChange
  readonly rateLimit?: number | undefined
  readonly ordered?: boolean | undefined
  readonly format?: FormatChange | undefined
}

/**
 * Changes an endpoint.
 *
 * @throws Fault validation_failed (the URL, a kind, the connection), not_found
 */
export async function updateEndpoint(
  context: EndpointContext,
  change: EndpointChange,
  actor: Actor,
): Promise<EndpointWithSecrets> {
  const faults = endpointFaults(change, context)
  if (faults.length > 0) throw invalidFields(faults)
  const nowMs = context.clock.now()
  const updated = await context.orm.em.fork().transactional(async (em) => {
    const endpoint = await lockEndpoint(em, change.endpointId)
    const { url, description, concurrency, enabled } = change
    if (url !== undefined && url !== endpoint.url) {
      endpoint.url = url
      resetHealth(endpoint)
    }
    const formatFaults = applyFormat(endpoint, change.format ?? {})
    if (formatFaults.length > 0) throw invalidFields(formatFaults)
    const connection = applyConnection(context.encrypter, endpoint, change.connection)
    if (description !== undefined) endpoint.description = description
    if (change.rateLimit !== undefined) endpoint.rateLimit = change.rateLimit
    if (change.ordered === true && !endpoint.ordered) {
      endpoint.orderedFrom = await firstPending(em, endpoint.id)
    }
    if (change.ordered !== undefined) endpoint.ordered = change.ordered
    if (concurrency !== undefined) endpoint.concurrency = concurrency
    const defaultKinds = endpoint.profile === 'WIAXY' ? WIAXY_KINDS : []
    if (change.allKinds) endpoint.kinds = [...defaultKinds]
    else if (change.kinds.length > 0) endpoint.kinds = [...change.kinds]
    if (enabled === true) enable(endpoint)
    if (enabled === false && endpoint.disabledAt === null) {
      endpoint.disabledAt = new Date(nowMs)
      endpoint.disabledReason = 'REQUESTED'
    }
    const secrets = await activeSecrets(em, [endpoint.id], nowMs)
    await appendAudit(em, actor, {
      action: 'endpoint.update',
      targetId: endpoint.id,
      businessId: endpoint.business,
      details: toDetails(change),
    })
    return { endpoint, secrets, connection }
  })
  if (change.enabled === true || change.ordered === false) context.onDue()
  return updated
}

/** The requested changes, with only the origin of the URL, as receivers put secrets into paths. */
function toDetails(change: EndpointChange): Readonly<Record<string, unknown>> {
  const { url, kinds, allKinds, description, concurrency, enabled } = change
  return {
    ...(url !== undefined && { origin: new URL(url).origin }),
    ...((allKinds || kinds.length > 0) && { kinds }),
    ...(description !== undefined && { description }),
    ...(concurrency !== undefined && { concurrency }),
    ...(enabled !== undefined && { enabled }),
    ...connectionDetails(change.connection),
    ...(change.rateLimit !== undefined && { rateLimit: change.rateLimit }),
    ...(change.ordered !== undefined && { ordered: change.ordered }),
    ...formatDetails(change.format ?? {}),
  }
}

function enable(endpoint: Endpoint): void {
  endpoint.disabledAt = null
  endpoint.disabledReason = null
  resetHealth(endpoint)
}

/** Failures at the earlier URL, or before it was disabled, no longer count. */
function resetHealth(endpoint: Endpoint): void {
  endpoint.failingSince = null
  endpoint.warnedAt = null
}

/**
 * Deletes an endpoint, and the headers and credentials it was given. Its row stays while deliveries refer to it. Pending deliveries are no longer
 * claimed, attempts in progress finish, and retention fails the rest.
 *
 * @throws Fault not_found
 */
export async function deleteEndpoint(
  { orm, clock }: EndpointContext,
  endpointId: string,
  actor: Actor,
): Promise<void> {
  await orm.em.fork().transactional(async (em) => {
    const endpoint = await lockEndpoint(em, endpointId)
    endpoint.deletedAt = new Date(clock.now())
    endpoint.connectionEncrypted = null
    endpoint.certificateExpiresAt = null
    endpoint.connectionVersion += 1
    await appendAudit(em, actor, {
      action: 'endpoint.delete',
      targetId: endpointId,
      businessId: endpoint.business,
    })
  })
}
