import { ForeignKeyConstraintViolationException } from '@mikro-orm/core'
import { appendAudit } from '../../auth/audit/append-audit-entry.ts'
import type { Actor } from '../../auth/caller.ts'
import { Fault, invalidFields } from '../../core/errors.ts'
import { newId } from '../../core/ids.ts'
import type { ShownEndpoint } from '../message.ts'
import { EndpointEntity, SecretEntity } from './endpoint.entity.ts'
import { CONCURRENCY_DEFAULT, ENDPOINTS_MAX } from './endpoint.ts'
import type { EndpointContext } from './endpoint-context.ts'
import { urlRefusal } from './endpoint-url.ts'
import { encryptSecret, newSecret } from './signing-secret.ts'

/** What to add. */
interface NewEndpoint {
  readonly businessId: string
  readonly url: string
  /** Empty: every kind but ACCOUNT_CREATED. */
  readonly kinds: readonly string[]
  readonly description: string
  /** 0: the usual. */
  readonly concurrency: number
  /** Whether it receives the events of test mode; false: those of live mode. */
  readonly test: boolean
}

/**
 * Adds an endpoint. It receives the events that are logged from now on.
 *
 * @returns the endpoint, and its secret, which cannot be had again
 * @throws Fault validation_failed (the URL), not_found (the business), too_many_endpoints
 */
export async function createEndpoint(
  context: EndpointContext,
  wanted: NewEndpoint,
  actor: Actor,
): Promise<ShownEndpoint & { secret: string }> {
  const refusal = urlRefusal(wanted.url, context.rules)
  if (refusal) throw invalidFields([{ field: 'url', message: refusal }])
  const nowMs = context.clock.now()
  const id = newId('ep', nowMs)
  const secret = newSecret()
  const made = await context.orm.em
    .fork()
    .transactional(async (em) => {
      // One at a time in each business, so that two that arrive together do not pass the bound.
      await em.execute('select pg_advisory_xact_lock(hashtextextended(?, 0))', [
        `webhook endpoints of ${wanted.businessId}`,
      ])
      const others = { business: wanted.businessId, live: !wanted.test, deletedAt: null }
      if ((await em.count(EndpointEntity, others)) >= ENDPOINTS_MAX) {
        const text = `A business has at most ${ENDPOINTS_MAX} endpoints in each mode`
        throw new Fault('too_many_endpoints', text)
      }
      const [last] = await em.execute<{ position: string }[]>(
        'select coalesce(max(position), 0) as position from event_log',
      )
      const endpoint = em.create(EndpointEntity, {
        id,
        business: wanted.businessId,
        live: !wanted.test,
        url: wanted.url,
        kinds: [...wanted.kinds],
        description: wanted.description,
        concurrency: wanted.concurrency || CONCURRENCY_DEFAULT,
        afterPosition: BigInt(last?.position ?? 0),
        createdAt: new Date(nowMs),
        failingSince: null,
        warnedAt: null,
        disabledAt: null,
        disabledReason: null,
        deletedAt: null,
      })
      await em.flush()
      const first = em.create(SecretEntity, {
        endpoint: id,
        number: 1,
        sealed: encryptSecret(context.encrypter, id, secret),
        createdAt: new Date(nowMs),
        expiresAt: null,
      })
      await appendAudit(em, actor, {
        action: 'endpoint.create',
        targetId: id,
        businessId: wanted.businessId,
        details: { origin: new URL(wanted.url).origin, kinds: wanted.kinds },
      })
      return { endpoint, secrets: [first] }
    })
    .catch((error: unknown) => {
      if (!(error instanceof ForeignKeyConstraintViolationException)) throw error
      throw new Fault('not_found', 'No such business', { cause: error })
    })
  return { ...made, secret }
}
