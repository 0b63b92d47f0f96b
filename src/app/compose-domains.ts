import { createExchange } from '../auth/rate-limits/exchange.ts'
import { createKnownCredentials } from '../auth/rate-limits/known-credentials.ts'
import { createRateLimits } from '../auth/rate-limits/rate-limits.ts'
import { createShareBuckets } from '../auth/rate-limits/share-buckets.ts'
import { createTokenHashes } from '../auth/tokens/store.ts'
import { createAliasOf } from '../businesses/get-business.ts'
import { createKeyUses } from '../businesses/key-uses.ts'
import { createKeyHashes } from '../businesses/store.ts'
import { createTimeText } from '../core/clock.ts'
import type { Encrypter } from '../crypto/encryption.ts'
import { createBatchMetrics } from '../postgres/metrics/batches.ts'
import { createMetrics } from '../server/metrics.ts'
import { createSettlements } from '../settlement/settlements.ts'
import { createAttemptMetrics } from '../webhooks/attempt-metrics.ts'
import { createWebhooks, type Webhooks, type WebhooksOptions } from '../webhooks/webhooks.ts'
import { composeEvents } from './compose-events.ts'
import { composePayments } from './compose-payments.ts'
import { composeRelay } from './compose-relay.ts'
import { composeSessions } from './console/compose-sessions.ts'
import type { ServiceOptions } from './service-options.ts'

/** This machine's own addresses. */
const LOOPBACK = ['127.0.0.0/8', '::1/128']

/** For one webhook request and its response. */
const WEBHOOK_TIMEOUT_MS = 15_000

/** The domains of a service. */
export type Domains = ReturnType<typeof composeDomains>

/** Composes the domains. Nothing is started. */
export function composeDomains(options: ServiceOptions, encrypter: Encrypter) {
  const { config, database, clock, log, tracing } = options
  const timeText = createTimeText(config.displayTimeZone)
  const metrics = createMetrics(tracing !== undefined)
  const observeBatches = createBatchMetrics(metrics)
  const webhooks = composeWebhooks(options, {
    ...{ encrypter, timeText, observeBatches },
    metrics: createAttemptMetrics(metrics),
    onCommit: () => events.onCommit(),
  })
  const relay = composeRelay({ config, database, clock, log, metrics, tracing })
  const events = composeEvents({
    ...{ config, database, clock, log, metrics, tracing },
    wakeReaders() {
      webhooks.wake()
      relay?.wake()
    },
  })
  const { onCommit } = events
  const keyUses = createKeyUses({ pool: database.relaxedPool, log })
  const aliasOf = createAliasOf(database.orm)
  const payments = composePayments({
    ...{ config, database, encrypter, clock, log, metrics, observeBatches, aliasOf, onCommit },
    tracing,
  })
  const settlements = createSettlements({ database, clock, log, onCommit, tracing })
  const exchange = createExchange({ share: createShareBuckets(database.relaxedPool), clock, log })
  const limits = createRateLimits({
    defaults: config.rateLimits,
    known: createKnownCredentials({
      stored: [createKeyHashes(database.pool), createTokenHashes(database.pool)],
      fixed: options.adminToken,
      ...{ clock, log },
    }),
    clock,
    report: exchange.report,
  })
  return {
    ...{ timeText, metrics, webhooks, relay, events, keyUses, aliasOf, payments },
    ...{ settlements, exchange, limits },
    sessions: composeSessions(options, encrypter),
  }
}

function composeWebhooks(
  options: ServiceOptions,
  given: Pick<
    WebhooksOptions,
    'encrypter' | 'timeText' | 'metrics' | 'observeBatches' | 'onCommit'
  >,
): Webhooks {
  const { config, database, clock, log, localWebhooks, tracing } = options
  return createWebhooks({
    ...given,
    database,
    clock,
    bankNames: config.bankNames,
    log,
    tracing,
    allowHttp: localWebhooks,
    allowedCidrs: [...(localWebhooks ? LOOPBACK : []), ...config.webhookAllowedCidrs],
    retentionDays: config.deliveryRetentionDays,
    leaseMs: config.webhookLeaseMs,
    // A request must end, and its result be recorded, before its lease ends.
    requestTimeoutMs: Math.min(WEBHOOK_TIMEOUT_MS, config.webhookLeaseMs / 2),
    proxyUrl: config.webhookProxyUrl,
  })
}
