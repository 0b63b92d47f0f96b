import { ForeignKeyConstraintViolationException } from '@mikro-orm/core'
import type { EntityManager } from '@mikro-orm/postgresql'
import { appendAudit } from '../../auth/audit/append-audit-entry.ts'
import type { Actor } from '../../auth/caller.ts'
import { Fault, type FieldFault, invalidFields } from '../../core/errors.ts'
import { newId } from '../../core/ids.ts'
import { readLogState } from '../../events/log-state.ts'
import { endpointKindFaults } from '../../events/message.ts'
import {
  applyConnection,
  changeFaults,
  connectionDetails,
} from '../connections/apply-connection.ts'
import type { ConnectionChange } from '../connections/connection.ts'
import { firstPending } from '../deliveries/claim-ordered.ts'
import type { EndpointWithSecrets } from '../message.ts'
import { urlRefusal } from '../sender/address-guard.ts'
import { encryptSecret, newSecret, newTextSecret } from '../sender/sign.ts'
import { type Endpoint, EndpointEntity, SecretEntity } from './endpoint.entity.ts'
import { CONCURRENCY_DEFAULT, ENDPOINTS_MAX, type RequestFormat } from './endpoint.ts'
import type { EndpointContext } from './endpoint-context.ts'
import { activeSecrets, lockEndpoint } from './list-endpoints.ts'
import {
  applyFormat,
  type FormatChange,
  formatDetails,
  STANDARD_FORMAT,
  WIAXY_KINDS,
} from './request-format.ts'

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
  const updated = await context.database.orm.em.fork().transactional(async (em) => {
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
    const defaultKinds = endpoint.format.profile === 'WIAXY' ? WIAXY_KINDS : []
    if (change.allKinds) endpoint.kinds = [...defaultKinds]
    else if (change.kinds.length > 0) endpoint.kinds = [...change.kinds]
    if (enabled === true) enable(endpoint)
    if (enabled === false && endpoint.disabledAt === null) {
      endpoint.disabledAt = new Date(nowMs)
      endpoint.disabledReason = 'REQUESTED'
    }
    const secrets = await activeSecrets(endpoint, nowMs)
    await appendAudit(em, actor, {
      action: 'endpoint.update',
      targetId: endpoint.id,
      businessId: endpoint.business.id,
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
  { database: { orm }, clock }: EndpointContext,
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
      businessId: endpoint.business.id,
    })
  })
}

/** The endpoint to create. */
interface NewEndpoint {
  readonly businessId: string
  readonly url: string
  /** Empty: every kind except ACCOUNT_CREATED. */
  readonly kinds: readonly string[]
  readonly description: string
  /** 0: the default. */
  readonly concurrency: number
  /** Whether it receives the events of live mode or, if false, of test mode. */
  readonly live: boolean
  /** Whether it must be the only endpoint of the business and mode with its URL. */
  readonly uniqueUrl?: boolean
  readonly connection: ConnectionChange
  /** Requests a second; 0 or undefined: no limit. */
  readonly rateLimit?: number | undefined
  readonly ordered?: boolean | undefined
  /** Absent: the standard one. */
  readonly format?: RequestFormat | undefined
  /** The text that signs, in the WIAXY profile; absent or empty: one is generated. */
  readonly textSecret?: string | undefined
}

/**
 * Creates an endpoint. It receives the events that are logged from now on.
 *
 * @returns the endpoint and its secret, which cannot be read again; empty if it was given
 * @throws Fault validation_failed (the URL, a kind), not_found (the business), too_many_endpoints,
 *   duplicate_webhook
 */
export async function createEndpoint(
  context: EndpointContext,
  requested: NewEndpoint,
  actor: Actor,
): Promise<EndpointWithSecrets & { secret: string }> {
  const faults = endpointFaults(requested, context)
  if (faults.length > 0) throw invalidFields(faults)
  const nowMs = context.clock.now()
  const id = newId('ep', nowMs)
  const { format = STANDARD_FORMAT, textSecret = '' } = requested
  const isWiaxy = format.profile === 'WIAXY'
  const generated = isWiaxy ? newTextSecret() : newSecret()
  const kinds = isWiaxy && requested.kinds.length === 0 ? WIAXY_KINDS : requested.kinds
  const { end } = await readLogState(context.database.relaxedPool)
  const created = await context.database.orm.em
    .fork()
    .transactional(async (em) => {
      await ensureBelowMax(em, requested)
      const endpoint = em.create(EndpointEntity, {
        id,
        business: requested.businessId,
        live: requested.live,
        url: requested.url,
        kinds: [...kinds],
        description: requested.description,
        concurrency: requested.concurrency || CONCURRENCY_DEFAULT,
        afterPosition: end.position,
        droppedSequence: 0n,
        rateLimit: requested.rateLimit ?? 0,
        ordered: requested.ordered ?? false,
        orderedFrom: end.position,
        connectionVersion: 0,
        connectionEncrypted: null,
        certificateExpiresAt: null,
        format,
        createdAt: new Date(nowMs),
        failingSince: null,
        warnedAt: null,
        disabledAt: null,
        disabledReason: null,
        deletedAt: null,
      })
      const connection = applyConnection(context.encrypter, endpoint, requested.connection)
      const first = em.create(SecretEntity, {
        endpoint,
        number: 1,
        secretEncrypted: encryptSecret(
          context.encrypter,
          { endpointId: id, number: 1 },
          textSecret || generated,
        ),
        createdAt: new Date(nowMs),
        expiresAt: null,
        isNext: false,
      })
      await appendAudit(em, actor, {
        action: 'endpoint.create',
        targetId: id,
        businessId: requested.businessId,
        details: {
          origin: new URL(requested.url).origin,
          kinds,
          ...(isWiaxy && formatDetails(format)),
          ...connectionDetails(requested.connection),
          ...(requested.rateLimit !== undefined && { rateLimit: requested.rateLimit }),
          ...(requested.ordered !== undefined && { ordered: requested.ordered }),
        },
      })
      return { endpoint, secrets: [first], connection }
    })
    .catch((error: unknown) => {
      if (!(error instanceof ForeignKeyConstraintViolationException)) throw error
      throw new Fault('not_found', 'There is no such business', { cause: error })
    })
  return { ...created, secret: textSecret === '' ? generated : '' }
}

/** Locks the business's endpoints, so that concurrent calls cannot exceed the limit. */
async function ensureBelowMax(em: EntityManager, requested: NewEndpoint): Promise<void> {
  const { businessId, live, url, uniqueUrl } = requested
  await em.execute('select pg_advisory_xact_lock(hashtextextended(?, 0))', [
    `webhook endpoints of ${businessId}`,
  ])
  const sameMode = { business: businessId, live, deletedAt: null }
  const same = uniqueUrl ? await em.findOne(EndpointEntity, { ...sameMode, url }) : null
  if (same) {
    const text = `The endpoint ${same.id} has this url; change that one, or delete it to get a new secret`
    throw new Fault('duplicate_webhook', text)
  }
  if ((await em.count(EndpointEntity, sameMode)) >= ENDPOINTS_MAX) {
    const text = `A business has at most ${ENDPOINTS_MAX} endpoints in each mode`
    throw new Fault('too_many_endpoints', text)
  }
}

/** The settings of an endpoint that validation in the contract cannot check. */
interface Requested {
  readonly url?: string | undefined
  readonly kinds: readonly string[]
  readonly connection: ConnectionChange
}

/** The faults of the settings to create or change an endpoint with. */
function endpointFaults(
  { url, kinds, connection }: Requested,
  { rules, clock }: Pick<EndpointContext, 'rules' | 'clock'>,
): FieldFault[] {
  const nowMs = clock.now()
  const refusal = url === undefined ? undefined : urlRefusal(url, rules)
  return [
    ...(refusal === undefined ? [] : [{ field: 'url', message: refusal }]),
    ...endpointKindFaults(kinds),
    ...changeFaults(connection, rules, nowMs),
  ]
}
