import type { Client } from 'pg'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import { createExchange, createShareBuckets } from '../auth/rate-limits/exchange.ts'
import { createKnownCredentials } from '../auth/rate-limits/known-credentials.ts'
import { createRateLimits } from '../auth/rate-limits/rate-limits.ts'
import { createAuthenticateSession } from '../auth/sessions/authenticate-session.ts'
import { createProvider } from '../auth/sessions/oidc-provider.ts'
import { createSignOut } from '../auth/sessions/open-session.ts'
import { createSessionRpc } from '../auth/sessions/rpc.ts'
import { createSignIn } from '../auth/sessions/sign-in.ts'
import { createSignInUser } from '../auth/sessions/sign-in-user.ts'
import { createAuthenticateToken, createTokenHashes } from '../auth/tokens/authenticate-token.ts'
import { createKeyUses } from '../businesses/authenticate-key.ts'
import { createAliasOf } from '../businesses/get-business.ts'
import { createKeyHashes } from '../businesses/store.ts'
import type { Config } from '../config/config.ts'
import { type Clock, createTimeText } from '../core/clock.ts'
import { DAY_MS } from '../core/durations.ts'
import type { Loop } from '../core/loop.ts'
import type { Encrypter } from '../crypto/encryption.ts'
import { registerEventMetrics } from '../events/metrics.ts'
import { createRetention } from '../events/retention.ts'
import { createSequencer } from '../events/sequencer.ts'
import { Tail } from '../events/tail.ts'
import { createBatchMetrics } from '../postgres/batcher.ts'
import { DEADLINES } from '../postgres/client.ts'
import { createHeartbeat } from '../postgres/heartbeat.ts'
import type { Database } from '../postgres/orm.ts'
import { sessionOptions } from '../postgres/session.ts'
import { registerRelayMetrics } from '../relay/metrics.ts'
import { createRelay, type Relay } from '../relay/relay.ts'
import type { ConsoleOidc } from '../server/http/console-sessions.ts'
import { createOwnOrigin } from '../server/http/console-sessions.ts'
import { createMetrics } from '../server/metrics.ts'
import { createSettlements } from '../settlement/settlements.ts'
import type { Tracing } from '../tracing/tracing.ts'
import { createAttemptMetrics } from '../webhooks/attempt-metrics.ts'
import { dispatchedUpTo } from '../webhooks/deliveries/backlog.ts'
import { createWebhooks, type Webhooks, type WebhooksOptions } from '../webhooks/webhooks.ts'
import { composePayments } from './compose-payments.ts'
import type { ServiceOptions } from './service-options.ts'
import { VERSION } from './version.ts'

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
    encrypter,
    timeText,
    observeBatches,
    metrics: createAttemptMetrics(metrics),
    onCommit: () => events.onCommit(),
  })
  const relay = composeRelay({ config, database, clock, log, metrics, tracing })
  const events = composeEvents({
    config,
    database,
    clock,
    log,
    metrics,
    tracing,
    wakeReaders() {
      webhooks.wake()
      relay?.wake()
    },
  })
  const { onCommit } = events
  const keyUses = createKeyUses({ pool: database.relaxedPool, log })
  const aliasOf = createAliasOf(database.orm)
  const payments = composePayments({
    config,
    database,
    encrypter,
    clock,
    log,
    metrics,
    observeBatches,
    aliasOf,
    onCommit,
    tracing,
  })
  const settlements = createSettlements({ database, clock, log, onCommit, tracing })
  const exchange = createExchange({ share: createShareBuckets(database.relaxedPool), clock, log })
  const limits = createRateLimits({
    defaults: config.rateLimits,
    known: createKnownCredentials({
      stored: [createKeyHashes(database.pool), createTokenHashes(database.pool)],
      fixed: options.adminToken,
      clock,
      log,
    }),
    clock,
    report: exchange.report,
  })
  return {
    timeText,
    metrics,
    webhooks,
    relay,
    events,
    keyUses,
    aliasOf,
    payments,
    settlements,
    exchange,
    limits,
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

interface RelayOptions {
  readonly config: Config
  readonly database: Database
  readonly clock: Clock
  readonly log: Logger
  readonly metrics: Registry
  readonly tracing: Tracing | undefined
}

/** The relay that RELAY_URL asks for. Its metrics appear once it starts. */
function composeRelay(options: RelayOptions): Relay | undefined {
  const { config, database, clock, log, metrics } = options
  const { relay: settings, eventRetentionDays } = config
  if (settings === undefined) return undefined
  const { pool } = database
  const relay = createRelay({
    pool,
    log,
    tracing: options.tracing,
    random: Math.random,
    format: settings.format,
    async openSink() {
      // Loading the client of NATS takes time, which only those who use it spend.
      const { openJetStreamSink } = await import('../relay/jetstream-sink.ts')
      const retentionMs = eventRetentionDays * DAY_MS
      return openJetStreamSink(settings, { replicas: settings.replicas, retentionMs })
    },
  })
  return {
    ...relay,
    start(afterMs) {
      registerRelayMetrics(metrics, { relay, pool, clock })
      relay.start(afterMs)
    },
  }
}

interface EventOptions {
  readonly config: Config
  readonly database: Database
  readonly clock: Clock
  readonly log: Logger
  readonly metrics: Registry
  readonly tracing: Tracing | undefined
  /** Called when the event log has new events. */
  readonly wakeReaders: () => void
}

/** The event log of this process. */
interface Events {
  readonly tail: Tail
  /** Sequences the events that a commit added. */
  onCommit(): void
  start(): void
  stop(): Promise<void>
}

/** Composes the tail, the sequencer, the heartbeats and the retention of events. */
function composeEvents(options: EventOptions): Events {
  const { config, database, clock, log, metrics, wakeReaders } = options
  const { pool } = database
  const tail = new Tail(database, log)
  const onAdvance = (): void => {
    tail.wake()
    wakeReaders()
  }
  const sequencer = createSequencer({
    pool: database.recordingPool,
    log,
    metrics,
    onAdvance,
    tracing: options.tracing,
  })
  const heartbeats = createHeartbeats(options, onAdvance)
  const retention = createRetention({
    pool,
    clock,
    log,
    retentionDays: config.eventRetentionDays,
    dispatchedUpTo: () => dispatchedUpTo(pool),
  })
  registerEventMetrics(metrics, pool, tail)
  return {
    tail,
    onCommit: sequencer.wake,
    start() {
      for (const each of [...heartbeats, sequencer, retention]) each.start()
    },
    async stop() {
      await Promise.all([tail, sequencer, retention, ...heartbeats].map((each) => each.stop()))
    },
  }
}

/** The heartbeat on the way that all connections go, and the listener, which may need a way of its own. */
function createHeartbeats({ config, database, log }: EventOptions, onAdvance: () => void): Loop[] {
  const { transactionPooling } = config.pooler
  // Through a pooler that assigns connections by transaction, LISTEN needs the server itself.
  const listenUrl = config.databaseListenUrl ?? (transactionPooling ? undefined : database.url)
  const listen = async (client: Client): Promise<void> => {
    client.on('notification', onAdvance)
    // The sequencer notifies, once a tick. Payments do not: NOTIFY takes a database-wide lock at the commit.
    await client.query('listen inflow_event_log')
    // The log may have grown unnoticed.
    onAdvance()
  }
  const isDirect = listenUrl === database.url
  const session = sessionOptions({ statement_timeout: `${DEADLINES.hot}` })
  const heartbeat = createHeartbeat({
    name: 'database heartbeat',
    url: database.url,
    log,
    options: transactionPooling ? undefined : session,
    connections: database.connections,
    onConnect: isDirect ? listen : undefined,
  })
  if (listenUrl === undefined || isDirect) return [heartbeat]
  const way = { name: 'event listener', url: listenUrl, options: session }
  return [heartbeat, createHeartbeat({ ...way, log, onConnect: listen })]
}

type Settings = Parameters<typeof createSignIn>[0]

/** How tokens and sessions are authenticated, and how sessions begin and end. */
function composeSessions(options: ServiceOptions, encrypter: Encrypter) {
  const { config, database, clock, adminToken } = options
  const { recordingPool: pool, relaxedPool } = database
  const { idleMs, maxMs } = config.console.sessions
  const authenticateToken = createAuthenticateToken({
    pool,
    relaxedPool,
    clock,
    bootstrapToken: adminToken,
  })
  const settings = {
    database,
    clock,
    adminToken,
    idleMs,
    maxMs,
    authenticateToken,
    auditKeys: encrypter,
  }
  const banks = Object.values(config.banks)
  return {
    authenticateToken,
    authenticateSession: createAuthenticateSession({
      pool,
      relaxedPool,
      clock,
      adminToken,
      idleMs,
    }),
    signIn: createSignIn(settings),
    signOut: createSignOut(settings),
    ownOrigin: createOwnOrigin(config.console.publicUrl),
    oidc: composeOidc(config.console.oidc, settings, encrypter),
    rpc: createSessionRpc({
      database,
      clock,
      adminToken,
      idleMs,
      publicUrl: config.console.publicUrl,
      service: {
        version: VERSION,
        embedded: config.databaseUrl === undefined,
        sandbox: banks.every((mode) => mode === 'sandbox'),
      },
    }),
  }
}

function composeOidc(
  oidc: Config['console']['oidc'],
  settings: Settings,
  encrypter: Encrypter,
): ConsoleOidc | undefined {
  if (oidc === undefined) return undefined
  const { name, publicUrl, scopesClaim, businessesClaim, roles } = oidc
  const provider = createProvider({
    ...oidc,
    redirectUri: `${publicUrl.origin}/console/oidc/callback`,
    claims: businessesClaim === undefined ? [scopesClaim] : [scopesClaim, businessesClaim],
  })
  const rules = { scopesClaim, businessesClaim, roles }
  return { name, publicUrl, ...createSignInUser({ ...settings, encrypter, provider, rules }) }
}
