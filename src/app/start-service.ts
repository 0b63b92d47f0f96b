import type { Logger } from 'pino'
import { Registry } from 'prom-client'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { EventService } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { ReconciliationService } from '../../gen/inflow/reconciliation/v1/reconciliation_service_pb.ts'
import { SandboxService } from '../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { SettlementService } from '../../gen/inflow/settlement/v1/settlement_service_pb.ts'
import { ThirdPartyService } from '../../gen/inflow/thirdparty/v2/third_party_service_pb.ts'
import {
  RecordPaymentRequestSchema,
  TransactionService,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { hashIdentityNumbers } from '../accounts/re-encrypt-accounts.ts'
import { createAccountRpc } from '../accounts/rpc.ts'
import { readPolicies } from '../auth/method-policy.ts'
import { createExchange } from '../auth/rate-limits/exchange.ts'
import { createRateLimits } from '../auth/rate-limits/rate-limits.ts'
import { createShareBuckets } from '../auth/rate-limits/share-buckets.ts'
import { createAdminRpc } from '../auth/rpc.ts'
import { createAliasOf } from '../businesses/aliases.ts'
import { createKeyUses } from '../businesses/key-uses.ts'
import { createBusinessRpc } from '../businesses/rpc.ts'
import { createBusinessStore } from '../businesses/store.ts'
import type { Config } from '../config/config.ts'
import { type Clock, createTimeText } from '../core/clock.ts'
import { newId } from '../core/ids.ts'
import { createEncrypter, type KeyRing } from '../crypto/encryption.ts'
import { createKeyHeartbeat } from '../crypto/key-heartbeat.ts'
import { createListener } from '../events/listener.ts'
import { registerEventMetrics } from '../events/metrics.ts'
import { createRetention } from '../events/retention.ts'
import { createEventRpc } from '../events/rpc.ts'
import { createSequencer } from '../events/sequencer.ts'
import { STREAM_TIMING } from '../events/subscribe.ts'
import { createTail } from '../events/tail.ts'
import type { Database } from '../postgres/orm.ts'
import { createReconciliationRpc } from '../reconciliation/rpc.ts'
import { createSandboxRpc } from '../sandbox/rpc.ts'
import { createCheck } from '../server/interceptors/validation.ts'
import { createMetrics, registerServerMetrics } from '../server/metrics.ts'
import { createInvokers, implement } from '../server/rpc/invokers.ts'
import type { Tls } from '../server/tls.ts'
import { createSettlements } from '../settlement/settlements.ts'
import { createThirdPartyRpc } from '../thirdparty/rpc.ts'
import { createGetTransaction } from '../transactions/find-transactions.ts'
import { createTransactionRpc } from '../transactions/rpc.ts'
import { deliveredUpTo } from '../webhooks/deliveries/delivered-up-to.ts'
import { createWebhooks } from '../webhooks/webhooks.ts'
import { composePayments } from './compose-payments.ts'
import { composePipeline } from './compose-pipeline.ts'
import { encryptedTables } from './encrypted-tables.ts'
import { openServers } from './open-servers.ts'
import type { WorkerChannel } from './workers/worker-channel.ts'

/** This machine's own addresses. */
const LOOPBACK = ['127.0.0.0/8', '::1/128']

/** For one webhook request and its answer. */
const WEBHOOK_TIMEOUT_MS = 15_000

/** How long requests and streams have to end by themselves when the service stops. */
const DRAIN_MS = 3_000

interface ServiceOptions {
  readonly config: Config
  readonly database: Database
  /** 32 bytes. */
  readonly masterKey: Buffer
  /** The other master keys that are known: see KeyRing. */
  readonly otherKeys?: readonly Buffer[]
  /** Where keys are kept in files, which a rotation changes while the service runs. */
  readonly rereadKeys?: () => Promise<KeyRing>
  readonly adminToken: string | undefined
  readonly clock: Clock
  readonly log: Logger
  /** Whether webhooks may go to this machine over http, as they may in embedded mode. */
  readonly localWebhooks: boolean
  /** For both doors; undefined: they speak plain text. */
  readonly tls?: Tls | undefined
  /** To the other workers of this machine, where there are any. */
  readonly link?: WorkerChannel | undefined
}

/** A running service. */
export interface Service {
  readonly httpPort: number
  readonly grpcPort: number
  /** What describes this process, rather than the database. */
  readonly metrics: Registry
  /** Begins what one worker does for all. A service without a link has begun. */
  startBackground(): void
  /** Another worker's commits added events. */
  onCommit(): void
  /** Another worker made webhooks due. */
  deliveriesDue(): void
  /** Finishes what is under way, and stops. The database stays open. */
  close(): Promise<void>
}

/** Composes the domains and opens the doors. */
export async function startService(options: ServiceOptions): Promise<Service> {
  const { config, database, clock, log, link } = options
  const { pool } = database
  const encrypter = createEncrypter(options.masterKey, options.otherKeys)
  const keyHeartbeat = createKeyHeartbeat({
    id: newId('ins', clock.now()),
    pool,
    encrypter,
    tables: encryptedTables(pool),
    log,
    reread: options.rereadKeys,
  })
  await keyHeartbeat.start()
  const timeText = createTimeText(config.displayTimeZone)
  const metrics = createMetrics()
  // What every worker would tell alike is left to the one that is asked.
  const common = link ? new Registry() : metrics
  const draining = new AbortController()

  const webhooks = createWebhooks({
    database,
    encrypter,
    clock,
    timeText,
    log,
    onCommit: () => onCommit(),
    others: link,
    allowHttp: options.localWebhooks,
    allowedCidrs: [...(options.localWebhooks ? LOOPBACK : []), ...config.webhookAllowedCidrs],
    retentionDays: config.deliveryRetentionDays,
    leaseMs: config.webhookLeaseMs,
    // A request must be over, and be written down, before its lease is.
    requestTimeoutMs: Math.min(WEBHOOK_TIMEOUT_MS, config.webhookLeaseMs / 2),
    proxyUrl: config.webhookProxyUrl,
  })
  const tail = createTail(pool, log)
  const onAdvance = (): void => {
    tail.wake()
    webhooks.wake()
  }
  const sequencer = createSequencer({ pool, log, onAdvance })
  let background = false
  const onCommit = link ? () => (background ? sequencer.wake() : link.onCommit()) : sequencer.wake
  const listener = createListener({ url: database.url, log, onNotify: onAdvance })

  const retention = createRetention({
    pool,
    clock,
    log,
    retentionDays: config.eventRetentionDays,
    deliveredUpTo: () => deliveredUpTo(pool),
  })
  registerEventMetrics({ own: metrics, common }, pool, tail)

  const businesses = createBusinessStore(pool)
  const keyUses = createKeyUses({ pool: database.relaxedPool, log })
  const aliasOf = createAliasOf(businesses)
  const payments = composePayments({
    config,
    database,
    encrypter,
    clock,
    log,
    metrics,
    aliasOf,
    onCommit,
  })
  const { bankOf, createAccount, recordPayment, notifications } = payments
  const getTransaction = createGetTransaction(pool)
  const settlements = createSettlements({ database, clock, log, onCommit })
  const check = createCheck()
  const exchange = createExchange({ share: createShareBuckets(database.relaxedPool), clock, log })
  const limits = createRateLimits({ defaults: config.rateLimits, clock, report: exchange.report })

  const implementations = [
    implement(ThirdPartyService, createThirdPartyRpc({ database, timeText, createAccount })),
    implement(
      AccountService,
      createAccountRpc({ database, bankOf, encrypter, clock, createAccount, aliasOf, onCommit }),
    ),
    implement(
      TransactionService,
      createTransactionRpc({
        pool,
        clock,
        recordPayment,
        getTransaction,
        onCommit,
        settlesAtOf: settlements.settlesAtOf,
        checkPayment: (payment) => check(RecordPaymentRequestSchema, payment),
      }),
    ),
    implement(
      EventService,
      createEventRpc({
        pool,
        tail,
        draining: draining.signal,
        random: Math.random,
        timing: STREAM_TIMING,
      }),
    ),
    implement(WebhookService, webhooks.rpc),
    implement(SettlementService, settlements.rpc),
    implement(
      ReconciliationService,
      createReconciliationRpc({ ...payments.reconciling, onCommit }),
    ),
    implement(BusinessService, createBusinessRpc(database, clock)),
    implement(AdminService, createAdminRpc(database, clock)),
    implement(
      SandboxService,
      createSandboxRpc({
        pool,
        clock,
        timeText,
        recordPayment,
        isSandbox: (bank) => config.banks[bank] === 'sandbox',
      }),
    ),
  ]
  const methods = implementations.flatMap(({ service }) => service.methods)
  const invokers = createInvokers(
    implementations,
    composePipeline({
      ...{ config, database, clock, log, metrics, check },
      businesses,
      keyUses,
      limits,
      policyOf: readPolicies(methods),
      adminToken: options.adminToken,
    }),
  )
  const ready = async (): Promise<boolean> => {
    if (draining.signal.aborted) return false
    return pool.query('select 1').then(
      () => true,
      () => false,
    )
  }
  const exposition = link?.exposition(metrics, common) ?? metrics
  const { tls } = options
  const { http, grpc } = await openServers({
    ...{ config, invokers, notifications, exposition, ready, log, tls },
  }).catch(async (error: unknown) => {
    await keyHeartbeat.stop()
    throw error
  })
  registerServerMetrics(metrics, { http, grpc })
  let hashing: Promise<unknown> | undefined
  const startBackground = (): void => {
    if (background || draining.signal.aborted) return
    background = true
    hashing = hashIdentityNumbers(pool, encrypter, draining.signal).then(
      (ids) => ids.length > 0 && log.error({ accounts: ids.slice(0, 10) }, 'unreadable id numbers'),
      (error: unknown) => log.warn({ err: error }, 'identity numbers are not searchable yet'),
    )
    sequencer.start()
    retention.start()
    webhooks.startBackground()
    settlements.start()
    payments.start()
  }
  listener.start()
  webhooks.start()
  keyUses.start()
  if (link === undefined) startBackground()
  return {
    httpPort: http.port,
    grpcPort: grpc.port,
    metrics,
    startBackground,
    onCommit: sequencer.wake,
    deliveriesDue: webhooks.deliveriesDue,
    close: async () => {
      draining.abort()
      const doors = [http, grpc].map((door) => door.close(DRAIN_MS))
      await Promise.all([...doors, webhooks.stop(), settlements.stop()])
      await Promise.all([
        tail.stop(),
        sequencer.stop(),
        listener.stop(),
        retention.stop(),
        keyUses.stop(),
        payments.stop(),
        hashing,
      ])
      await Promise.all([keyHeartbeat.stop(), exchange.stop()])
    },
  }
}
