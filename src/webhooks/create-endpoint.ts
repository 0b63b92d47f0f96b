import { ForeignKeyConstraintViolationException } from '@mikro-orm/core'
import { Fault, invalidFields } from '../errors.ts'
import { newId } from '../ids.ts'
import type { Endpoint } from './endpoint.entity.ts'
import { EndpointEntity } from './endpoint.entity.ts'
import type { EndpointContext } from './endpoint-context.ts'
import { urlRefusal } from './endpoint-url.ts'
import { newSecret, sealSecret } from './secret.ts'

/** What to add. */
interface NewEndpoint {
  readonly businessId: string
  readonly url: string
  /** Empty: every kind but ACCOUNT_CREATED. */
  readonly kinds: readonly string[]
  readonly description: string
}

/** A bound on what one event can cause. */
const ENDPOINTS_MAX = 50

/**
 * Adds an endpoint. It receives the events that are logged from now on.
 *
 * @returns the endpoint, and its secret, which cannot be had again
 * @throws Fault validation_failed (the URL), not_found (the business), too_many_endpoints
 */
export async function createEndpoint(
  context: EndpointContext,
  wanted: NewEndpoint,
): Promise<{ endpoint: Endpoint; secret: string }> {
  const refusal = urlRefusal(wanted.url, context.rules)
  if (refusal) throw invalidFields([{ field: 'url', message: refusal }])
  const nowMs = context.clock.now()
  const id = newId('ep', nowMs)
  const secret = newSecret()
  const endpoint = await context.orm.em
    .fork()
    .transactional(async (em) => {
      // One at a time in each business, so that two that arrive together do not pass the bound.
      await em.execute('select pg_advisory_xact_lock(hashtextextended(?, 0))', [
        `webhook endpoints of ${wanted.businessId}`,
      ])
      const count = await em.count(EndpointEntity, { business: wanted.businessId, deletedAt: null })
      if (count >= ENDPOINTS_MAX) {
        throw new Fault('too_many_endpoints', `A business has at most ${ENDPOINTS_MAX} endpoints`)
      }
      const [last] = await em.execute<{ position: string }[]>(
        'select coalesce(max(position), 0) as position from event_log',
      )
      return em.create(EndpointEntity, {
        id,
        business: wanted.businessId,
        url: wanted.url,
        kinds: [...wanted.kinds],
        description: wanted.description,
        secretSealed: sealSecret(context.sealer, id, secret),
        afterPosition: BigInt(last?.position ?? 0),
        createdAt: new Date(nowMs),
        deletedAt: null,
      })
    })
    .catch((error: unknown) => {
      if (!(error instanceof ForeignKeyConstraintViolationException)) throw error
      throw new Fault('not_found', 'No such business', { cause: error })
    })
  return { endpoint, secret }
}
