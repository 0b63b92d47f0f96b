import type { Interceptor } from '@connectrpc/connect'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import { createAuthenticateToken } from './admin/authenticate-token.ts'
import { createAuthenticateKey } from './businesses/authenticate-key.ts'
import type { KeyUses } from './businesses/key-uses.ts'
import { keyOwner } from './businesses/keys.ts'
import type { BusinessStore } from './businesses/store.ts'
import type { InternalCaller } from './caller.ts'
import type { Clock } from './clock.ts'
import type { Config } from './config.ts'
import { eventOwner } from './events/read-log.ts'
import type { RateLimits } from './limits/rate-limits.ts'
import { authentication } from './server/interceptors/authentication.ts'
import { observation } from './server/interceptors/observation.ts'
import { limitArrivals, limitCallers } from './server/interceptors/rate-limit.ts'
import { restriction } from './server/interceptors/restriction.ts'
import { type Check, validation } from './server/interceptors/validation.ts'
import type { Database } from './store/orm.ts'
import { transactionOwner } from './transactions/find-transactions.ts'
import { deliveryOwner, endpointOwner } from './webhooks/owners.ts'

interface Options {
  readonly config: Config
  readonly database: Database
  readonly clock: Clock
  readonly log: Logger
  readonly metrics: Registry
  readonly check: Check
  readonly businesses: BusinessStore
  readonly keyUses: KeyUses
  readonly limits: RateLimits
  readonly adminToken: string | undefined
}

/** What every call goes through, at whatever door: the first is the outermost. */
export function composeInterceptors(options: Options): readonly Interceptor[] {
  const { config, database, clock, log, metrics, check, businesses, keyUses, limits } = options
  const { pool } = database
  return [
    observation(log, metrics),
    limitArrivals(limits, clock),
    authentication({
      secretKey: createAuthenticateKey({ store: businesses, clock, used: keyUses.note }),
      token: createAuthenticateToken({
        pool,
        relaxedPool: database.relaxedPool,
        clock,
        bootstrapToken: options.adminToken,
      }),
      certificate: createAuthenticateCertificate(config.tlsClientScopes),
    }),
    limitCallers(limits, clock),
    validation(check),
    restriction({
      key: (id) => keyOwner(pool, id),
      endpoint: (id) => endpointOwner(pool, id),
      delivery: (id) => deliveryOwner(pool, id),
      event: (id) => eventOwner(pool, id),
      transaction: (id) => transactionOwner(pool, id),
    }),
  ]
}

/** Services that are known by the URI in their certificate. */
function createAuthenticateCertificate(scopesOf: Config['tlsClientScopes']) {
  return (uri: string): InternalCaller | undefined => {
    const scopes = scopesOf.get(uri)
    return scopes && { kind: 'internal', tokenId: uri, name: uri, scopes }
  }
}
