import { ForeignKeyConstraintViolationException } from '@mikro-orm/core'
import type { EntityManager } from '@mikro-orm/postgresql'
import { appendAudit } from '../../auth/audit/append-audit-entry.ts'
import type { Actor } from '../../auth/caller.ts'
import { Fault, type FieldFault, invalidFields } from '../../core/errors.ts'
import { newId } from '../../core/ids.ts'
import { endpointKindFaults } from '../../events/event-kinds.ts'
import { readLogState } from '../../events/log-state.ts'
import { applyConnection, connectionDetails } from '../connections/apply-connection.ts'
import type { ConnectionChange } from '../connections/connection.ts'
import { changeFaults } from '../connections/connection-faults.ts'
import type { EndpointWithSecrets } from '../message.ts'
import { urlRefusal } from '../sender/address-guard.ts'
import { EndpointEntity, SecretEntity } from './endpoint.entity.ts'
import { CONCURRENCY_DEFAULT, ENDPOINTS_MAX, type RequestFormat } from './endpoint.ts'
import type { EndpointContext } from './endpoint-context.ts'
import { formatDetails, STANDARD_FORMAT, WIAXY_KINDS } from './request-format.ts'
import { encryptSecret, newSecret, newTextSecret } from './signing-secret.ts'

/** The endpoint to create. */
interface NewEndpoint {
  readonly businessId: string
  readonly url: string
  /** Empty: every kind except ACCOUNT_CREATED. */
  readonly kinds: readonly string[]
  readonly description: string
  /** 0: the default. */
  readonly concurrency: number
  /** Whether it receives the events of test mode or, if false, of live mode. */
  readonly test: boolean
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
  const { end } = await readLogState(context.pool)
  const created = await context.orm.em
    .fork()
    .transactional(async (em) => {
      await ensureBelowMax(em, requested)
      const endpoint = em.create(EndpointEntity, {
        id,
        business: requested.businessId,
        live: !requested.test,
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
        ...format,
        createdAt: new Date(nowMs),
        failingSince: null,
        warnedAt: null,
        disabledAt: null,
        disabledReason: null,
        deletedAt: null,
      })
      const connection = applyConnection(context.encrypter, endpoint, requested.connection)
      await em.flush()
      const first = em.create(SecretEntity, {
        endpoint: id,
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
      throw new Fault('not_found', 'No such business', { cause: error })
    })
  return { ...created, secret: textSecret === '' ? generated : '' }
}

/** Locks the business's endpoints, so that concurrent calls cannot exceed the limit. */
async function ensureBelowMax(em: EntityManager, requested: NewEndpoint): Promise<void> {
  const { businessId, test, url, uniqueUrl } = requested
  await em.execute('select pg_advisory_xact_lock(hashtextextended(?, 0))', [
    `webhook endpoints of ${businessId}`,
  ])
  const sameMode = { business: businessId, live: !test, deletedAt: null }
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
