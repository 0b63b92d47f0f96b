import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import type { AuditKeys } from '../auth/audit/audit-mac.ts'
import type { InternalCaller } from '../auth/caller.ts'
import type { PolicyOf } from '../auth/method-policy.ts'
import type { RateLimits } from '../auth/rate-limits/rate-limits.ts'
import { portalLinkOwner } from '../auth/sessions/portal-links.ts'
import { idIn } from '../auth/sessions/session-secret.ts'
import { tokenIdOf } from '../auth/tokens/token-secret.ts'
import { createAuthenticateKey } from '../businesses/authenticate-key.ts'
import type { KeyUses } from '../businesses/key-uses.ts'
import { keyOwner } from '../businesses/keys.ts'
import { keyIdOf } from '../businesses/secret-key.ts'
import { createFindKey } from '../businesses/store.ts'
import type { Config } from '../config/config.ts'
import type { Clock } from '../core/clock.ts'
import { eventOwner } from '../events/read-log.ts'
import type { Database } from '../postgres/orm.ts'
import { authentication } from '../server/interceptors/authentication.ts'
import { callTracing } from '../server/interceptors/call-tracing.ts'
import type { CredentialIdOf } from '../server/interceptors/credential.ts'
import { observation } from '../server/interceptors/observation.ts'
import { limitArrivals, limitCallers } from '../server/interceptors/rate-limit.ts'
import { limitStreams } from '../server/interceptors/stream-limit.ts'
import { tenantScope } from '../server/interceptors/tenant-scope.ts'
import { type Check, validation } from '../server/interceptors/validation.ts'
import type { Pipeline } from '../server/rpc/invokers.ts'
import type { Tracing } from '../tracing/tracing.ts'
import { transactionOwner } from '../transactions/find-transactions.ts'
import { deliveryOwner, endpointOwner } from '../webhooks/owners.ts'
import type { Domains } from './compose-domains.ts'

interface Options {
  readonly config: Config
  readonly database: Database
  readonly clock: Clock
  readonly log: Logger
  readonly metrics: Registry
  readonly check: Check
  readonly keyUses: KeyUses
  readonly limits: RateLimits
  readonly policyOf: PolicyOf
  readonly sessions: Pick<Domains['sessions'], 'authenticateToken' | 'authenticateSession'>
  readonly auditKeys: AuditKeys
  readonly tracing: Tracing | undefined
}

/** The pipeline of every call, whatever its protocol: the first interceptor is the outermost. */
export function composePipeline(options: Options): Pipeline {
  const { config, database, clock, log, metrics, check, keyUses, limits, policyOf } = options
  const { sessions } = options
  const { orm, pool, recordingPool } = database
  return {
    beforeDecoding: [
      ...(options.tracing ? [callTracing(options.tracing)] : []),
      observation(log, metrics, policyOf, credentialIdOf),
      limitArrivals(limits, clock, policyOf, credentialIdOf),
      authentication(
        {
          secretKey: createAuthenticateKey({
            findKey: createFindKey(recordingPool),
            clock,
            onUse: keyUses.record,
          }),
          token: sessions.authenticateToken,
          session: sessions.authenticateSession,
          certificate: createAuthenticateCertificate(config.tlsClientScopes),
        },
        policyOf,
        options.auditKeys,
      ),
      limitCallers(limits, clock),
      limitStreams(config.streamsPerTokenMax),
    ],
    afterDecoding: [
      validation(check),
      tenantScope(
        {
          key: (id) => keyOwner(orm, id),
          endpoint: (id) => endpointOwner(orm.em.fork(), id),
          delivery: (id) => deliveryOwner(orm.em.fork(), id),
          event: (id) => eventOwner(pool, id),
          transaction: (id) => transactionOwner(pool, id),
          // Only fields of methods for tokens name a business, and those have no mode.
          business: async (id) => ({ businessId: id, live: true }),
          'portal link': (id) => portalLinkOwner(database, id),
        },
        policyOf,
      ),
    ],
  }
}

const credentialIdOf: CredentialIdOf = (kind, credential) =>
  kind === 'secret key' ? keyIdOf(credential) : (tokenIdOf(credential) ?? idIn('ses', credential))

/** Authenticates services by the URI in their certificate. */
function createAuthenticateCertificate(scopesOf: Config['tlsClientScopes']) {
  return (uri: string): InternalCaller | undefined => {
    const scopes = scopesOf.get(uri)
    return scopes && { kind: 'internal', tokenId: uri, name: uri, scopes }
  }
}
