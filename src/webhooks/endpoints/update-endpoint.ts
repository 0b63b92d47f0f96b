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
import {
  CONCURRENCY_DEFAULT,
  ENDPOINTS_MAX,
  type EndpointContext,
  type RequestFormat,
  WITH_DELETED_MAX,
} from './endpoint.ts'
import { activeSecrets, lockEndpoint } from './list-endpoints.ts'
import { applyFormat, type FormatChange, STANDARD_FORMAT, WIAXY_KINDS } from './request-format.ts'

/** The fields to change; absent fields keep their values. */
interface EndpointChange {
  readonly endpointId: string
  readonly url?: string | undefined
  /** Whether no other endpoint of the business and mode may have the URL that is set. */
  readonly uniqueUrl?: boolean
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
 * Changes an endpoint. A change to the stored values does nothing.
 *
 * @throws Fault validation_failed (the URL, a kind, the connection), not_found, duplicate_webhook
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
      const { business, live } = endpoint
      await lockEndpointsOf(em, business.id)
      if (change.uniqueUrl) await ensureUniqueUrl(em, { businessId: business.id, live, url })
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
    em.getUnitOfWork().computeChangeSets()
    const isChanged = em.getUnitOfWork().getChangeSets().length > 0
    const secrets = await activeSecrets(endpoint, nowMs)
    if (!isChanged) return { endpoint, secrets, connection }
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

/** The requested changes, with only the origin of the URL, because receivers put secrets into paths. */
function toDetails(change: EndpointChange): Readonly<Record<string, unknown>> {
  const { url, kinds, allKinds, description, concurrency, enabled, rateLimit, ordered } = change
  return {
    origin: url && new URL(url).origin,
    kinds: allKinds || kinds.length > 0 ? kinds : undefined,
    description,
    concurrency,
    enabled,
    ...connectionDetails(change.connection),
    rateLimit,
    ordered,
    ...change.format,
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
 * Deletes an endpoint with its headers and credentials. Its row stays while deliveries refer to it. Pending deliveries are
 * no longer claimed, attempts in progress finish, and retention marks the rest as failed.
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
  /** Absent: the standard format. */
  readonly format?: RequestFormat | undefined
  /** The text secret, in the WIAXY profile; absent or empty: a secret is generated. */
  readonly textSecret?: string | undefined
}

/**
 * Creates an endpoint. It receives the events that are logged from now on.
 *
 * @returns the endpoint and its secret, which cannot be read again; empty if the caller gave it
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
  const { end } = await readLogState(context.database.durablePool)
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
          ...(isWiaxy && format),
          ...connectionDetails(requested.connection),
          rateLimit: requested.rateLimit,
          ordered: requested.ordered,
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

async function ensureBelowMax(em: EntityManager, requested: NewEndpoint): Promise<void> {
  const { businessId, live } = requested
  await lockEndpointsOf(em, businessId)
  if (requested.uniqueUrl) await ensureUniqueUrl(em, requested)
  const open = { business: businessId, live, deletedAt: null }
  if ((await em.count(EndpointEntity, open)) >= ENDPOINTS_MAX) {
    const text = `A business has at most ${ENDPOINTS_MAX} endpoints in each mode`
    throw new Fault('too_many_endpoints', text)
  }
  if ((await em.count(EndpointEntity, { business: businessId })) >= WITH_DELETED_MAX) {
    const text = `A business has at most ${WITH_DELETED_MAX} endpoints with those that it deleted in the last weeks`
    throw new Fault('too_many_endpoints', text)
  }
}

/** Lets concurrent calls exceed no limit, and set no URL twice. */
async function lockEndpointsOf(em: EntityManager, businessId: string): Promise<void> {
  await em.execute('select pg_advisory_xact_lock(hashtextextended(?, 0))', [
    `webhook endpoints of ${businessId}`,
  ])
}

/** @throws Fault duplicate_webhook */
async function ensureUniqueUrl(
  em: EntityManager,
  { businessId, live, url }: Pick<NewEndpoint, 'businessId' | 'live' | 'url'>,
): Promise<void> {
  const same = await em.findOne(EndpointEntity, {
    business: businessId,
    live,
    url,
    deletedAt: null,
  })
  if (same === null) return
  const text = `The endpoint ${same.id} has this url; change that one, or delete it to get a new secret`
  throw new Fault('duplicate_webhook', text)
}

/** The settings of an endpoint that validation in the contract cannot check. */
interface Requested {
  readonly url?: string | undefined
  readonly kinds: readonly string[]
  readonly connection: ConnectionChange
}

/** The faults of the settings to create or change an endpoint with. */
export function endpointFaults(
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
