import type { Client } from 'pg'
import type { Logger } from 'pino'
import { createAuthenticateToken, createTokenHashes } from '../auth/authenticate-token.ts'
import { createExchange } from '../auth/rate-limits/exchange.ts'
import { createKnownCredentials } from '../auth/rate-limits/known-credentials.ts'
import { createRateLimits } from '../auth/rate-limits/rate-limits.ts'
import { createAuthenticateSession } from '../auth/sessions/authenticate-session.ts'
import { createSignOut } from '../auth/sessions/open-session.ts'
import { createSessionRpc } from '../auth/sessions/rpc.ts'
import { createSignIn } from '../auth/sessions/sign-in.ts'
import { createProvider, createSignInUser } from '../auth/sessions/sign-in-user.ts'
import type { BankCode } from '../banks/bank.ts'
import { createInstitutions } from '../banks/institutions.ts'
import { createKeyHashes, createKeyUses } from '../businesses/authenticate-key.ts'
import { createAliasOf } from '../businesses/get-business.ts'
import { createRequestLog } from '../businesses/request-log.ts'
import type { Config } from '../config/config.ts'
import { type Clock, createTimeText, type TimeText } from '../core/clock.ts'
import { DAY_MS } from '../core/durations.ts'
import type { Loop } from '../core/loop.ts'
import type { Encrypter, KeyRing } from '../crypto/encryption.ts'
import { registerEventMetrics } from '../events/metrics.ts'
import { createRetention } from '../events/retention.ts'
import { createSequencer } from '../events/sequencer.ts'
import { Tail } from '../events/tail.ts'
import { findSettlementPayouts } from '../payouts/pay-settlements.ts'
import type { Payout } from '../payouts/payout.ts'
import { createPayouts } from '../payouts/payouts.ts'
import { verifyPayouts } from '../payouts/verify-payouts.ts'
import { createBatchMetrics } from '../postgres/batcher.ts'
import { DEADLINES } from '../postgres/client.ts'
import { createHeartbeat } from '../postgres/heartbeat.ts'
import type { Database } from '../postgres/orm.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { sessionOptions } from '../postgres/session.ts'
import { createRelay, type Relay, registerRelayMetrics } from '../relay/relay.ts'
import { simulateTransfer } from '../sandbox/simulate-transfer.ts'
import { type ConsoleOidc, createOwnOrigin } from '../server/http/console-sessions.ts'
import { LOGO_PATH } from '../server/http/documents.ts'
import type { Tls } from '../server/tls.ts'
import { createSettlements } from '../settlement/settlements.ts'
import { dispatchedUpTo } from '../webhooks/deliveries/backlog.ts'
import { createWebhooks, type Webhooks, type WebhooksOptions } from '../webhooks/webhooks.ts'
import { composePayments, type Payments } from './compose-payments.ts'
import { VERSION } from './version.ts'

/** This machine's own addresses. */
const LOOPBACK = ['127.0.0.0/8', '::1/128']

/** The time-out of a webhook request with its response. */
const WEBHOOK_TIMEOUT_MS = 15_000

/** The domains of a service. */
export type Domains = ReturnType<typeof composeDomains>

/** Composes the domains. Nothing is started. */
export function composeDomains(runtime: Runtime, options: ServiceOptions, encrypter: Encrypter) {
  const { database, metrics } = runtime
  const { config } = options
  const timeText = createTimeText(config.displayTimeZone)
  const observeBatches = createBatchMetrics(metrics)
  const webhooks = composeWebhooks(runtime, options, { encrypter, timeText, observeBatches })
  const relay = composeRelay(runtime, config)
  const events = composeEvents(runtime, config, () => {
    webhooks.wake()
    relay?.wake()
  })
  const keyUses = createKeyUses(runtime)
  const requests = createRequestLog(runtime)
  const aliasOf = createAliasOf(database.orm)
  const payments = composePayments(runtime, { config, encrypter, observeBatches, aliasOf })
  const payouts = composePayouts(runtime, { config, encrypter, payments, timeText })
  const settlements = createSettlements(runtime, {
    verifyPayouts,
    findPayouts: findSettlementPayouts,
  })
  const exchange = createExchange(runtime)
  const limits = createRateLimits(runtime, {
    defaults: config.rateLimits,
    known: createKnownCredentials(runtime, {
      stored: [createKeyHashes(database.durablePool), createTokenHashes(database.durablePool)],
      fixed: options.adminToken,
    }),
    report: exchange.report,
  })
  return {
    timeText,
    webhooks,
    relay,
    events,
    keyUses,
    requests,
    aliasOf,
    payments,
    settlements,
    payouts,
    exchange,
    limits,
    sessions: composeSessions(runtime, options, encrypter),
  }
}

/** The options of a service. */
export interface ServiceOptions {
  readonly config: Config
  readonly database: Database
  /** 32 bytes. */
  readonly masterKey: Buffer
  /** The other known master keys: see KeyRing. */
  readonly otherKeys?: readonly Buffer[]
  /** Reads the key files again; a key rotation changes them while the service runs. */
  readonly rereadKeys?: () => Promise<KeyRing>
  readonly adminToken: string | undefined
  readonly clock: Clock
  /** How often the clock is compared with that of the database; undefined: every ten seconds. */
  readonly clockEveryMs?: number
  readonly log: Logger
  /** Whether webhooks may go to this machine over http, as in embedded mode. */
  readonly localWebhooks: boolean
  /** The certificates of both servers; undefined: no TLS. */
  readonly tls?: Tls | undefined
}

function composeWebhooks(
  runtime: Runtime,
  options: ServiceOptions,
  given: Pick<WebhooksOptions, 'encrypter' | 'timeText' | 'observeBatches'>,
): Webhooks {
  const { config, localWebhooks } = options
  return createWebhooks(runtime, {
    ...given,
    bankNames: config.bankNames,
    allowHttp: localWebhooks,
    allowedCidrs: [...(localWebhooks ? LOOPBACK : []), ...config.webhookAllowedCidrs],
    retentionDays: config.deliveryRetentionDays,
    leaseMs: config.webhookLeaseMs,
    // The request must end, and its result must be recorded, before its lease ends.
    requestTimeoutMs: Math.min(WEBHOOK_TIMEOUT_MS, config.webhookLeaseMs / 2),
    proxyUrl: config.webhookProxyUrl,
  })
}

/** The relay to RELAY_URL, if it is set. Its metrics appear when it starts. */
function composeRelay(runtime: Runtime, config: Config): Relay | undefined {
  const { relay: settings, eventRetentionDays } = config
  if (settings === undefined) return undefined
  const relay = createRelay(runtime, {
    random: Math.random,
    format: settings.format,
    async openSink() {
      // Loaded only if it is used, because loading the NATS client takes time.
      const { openJetStreamSink } = await import('../relay/jetstream-sink.ts')
      const retentionMs = eventRetentionDays * DAY_MS
      return openJetStreamSink(settings, { replicas: settings.replicas, retentionMs })
    },
  })
  return {
    ...relay,
    start(afterMs) {
      registerRelayMetrics(runtime, relay)
      relay.start(afterMs)
    },
  }
}

/**
 * Composes the event log of this process: the tail, the sequencer, the heartbeats and the retention of events.
 *
 * @param wakeReaders called when the event log has new events
 */
function composeEvents(runtime: Runtime, config: Config, wakeReaders: () => void) {
  const tail = new Tail(runtime)
  const onAdvance = (): void => {
    tail.wake()
    wakeReaders()
  }
  const sequencer = createSequencer(runtime, onAdvance)
  const heartbeats = createHeartbeats(runtime, config, onAdvance)
  const retention = createRetention(runtime, {
    retentionDays: config.eventRetentionDays,
    dispatchedUpTo: () => dispatchedUpTo(runtime.database.durablePool),
  })
  registerEventMetrics(runtime, tail)
  return {
    tail,
    /** Sequences the events that a commit added. */
    onCommit: sequencer.wake,
    start() {
      for (const each of [...heartbeats, sequencer, retention]) each.start()
    },
    async stop() {
      await Promise.all([tail, sequencer, retention, ...heartbeats].map((each) => each.stop()))
    },
  }
}

/** The heartbeat of the connections to the database, and the listener, which may need to bypass a pooler. */
function createHeartbeats(
  { database, log }: Runtime,
  config: Config,
  onAdvance: () => void,
): Loop[] {
  const { transactionPooling } = config.pooler
  // LISTEN does not work through a pooler in transaction mode, so it needs a direct connection to the server.
  const listenUrl = config.databaseListenUrl ?? (transactionPooling ? undefined : database.url)
  const listen = async (client: Client): Promise<void> => {
    client.on('notification', onAdvance)
    // The sequencer notifies once a tick. Payments do not notify, because NOTIFY takes a database-wide lock at the commit.
    await client.query('listen inflow_event_log')
    // The event log may have grown before the connection listened.
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

interface PayoutsOptions {
  readonly config: Config
  readonly encrypter: Encrypter
  readonly payments: Payments
  readonly timeText: TimeText
}

/** Composes payouts through the banks that can pay. */
function composePayouts(
  runtime: Runtime,
  { config, encrypter, payments, timeText }: PayoutsOptions,
) {
  const { bankOf, isSimulated, conditions, recordPayment } = payments
  const isReal = (bank: BankCode, live: boolean) => live && !isSimulated(bank)
  return createPayouts(runtime, {
    bankOf,
    encrypter,
    institutions: createInstitutions(config.institutionsFile),
    isOpen: (bank, live) => !isReal(bank, live) || conditions.get(bank)?.().breaker !== 'open',
    onPaid: (payout) => creditOwnAccount(runtime, { timeText, recordPayment, isSimulated }, payout),
    reconcileTimes: config.reconcile,
  })
}

/** Reports a simulated payout to one of our virtual accounts as a payment, once, like a real bank would. */
async function creditOwnAccount(
  runtime: Runtime,
  dependencies: Parameters<typeof simulateTransfer>[1],
  { id, live, bank, destination, amountMinor, sessionId, narration }: Payout,
): Promise<void> {
  if (bank === undefined || sessionId === '' || (live && !dependencies.isSimulated(bank))) return
  const { accountNumber } = destination
  const transfer = { live, accountNumber, amountMinor, sessionId, payerName: narration }
  await simulateTransfer(runtime, dependencies, transfer, id).catch((error: unknown) => {
    runtime.log.debug(
      { err: error, payoutId: id },
      'the beneficiary of a simulated payout is no account of ours',
    )
  })
}

type Settings = Parameters<typeof createSignIn>[1]

/** Composes the authentication of tokens and sessions, and the sign-in to the console. */
function composeSessions(runtime: Runtime, options: ServiceOptions, encrypter: Encrypter) {
  const { config, adminToken } = options
  const { idleMs, maxMs } = config.console.sessions
  const authenticateToken = createAuthenticateToken(runtime, adminToken)
  const settings = { adminToken, idleMs, maxMs, authenticateToken, auditKeys: encrypter }
  const banks = Object.values(config.banks)
  return {
    authenticateToken,
    authenticateSession: createAuthenticateSession(runtime, { adminToken, idleMs }),
    signIn: createSignIn(runtime, settings),
    signOut: createSignOut(runtime, encrypter),
    ownOrigin: createOwnOrigin(config.console.publicUrl),
    oidc: composeOidc(runtime, config.console.oidc, settings, encrypter),
    rpc: createSessionRpc(runtime, {
      adminToken,
      idleMs,
      publicUrl: config.console.publicUrl,
      service: {
        version: VERSION,
        embedded: config.databaseUrl === undefined,
        sandbox: banks.every((mode) => mode === 'sandbox'),
      },
      branding: brandingOf(config.console.portal),
    }),
  }
}

/** The branding of portals; undefined: portals look like the console of operators. */
function brandingOf({ name, logo, color }: Config['console']['portal']) {
  if (name === undefined && logo === undefined && color === undefined) return undefined
  const logoPath = logo === undefined ? '' : LOGO_PATH
  return { name: name ?? 'Inflow', logoPath, color: color ?? '' }
}

function composeOidc(
  runtime: Runtime,
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
  return {
    name,
    publicUrl,
    ...createSignInUser(runtime, { ...settings, encrypter, provider, rules }),
  }
}
