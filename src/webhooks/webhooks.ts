import type { ServiceImpl } from '@connectrpc/connect'
import type { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import type { BankNames } from '../banks/bank.ts'
import type { Resolve } from '../core/addresses.ts'
import type { TimeText } from '../core/clock.ts'
import type { Encrypter } from '../crypto/encryption.ts'
import type { ObserveBatches } from '../postgres/batcher.ts'
import type { Runtime } from '../postgres/runtime.ts'
import { createLoadConnection } from './connections/send-connected.ts'
import { createAttemptCounter } from './count-attempts.ts'
import { createUnclearClaims } from './deliveries/claim-deliveries.ts'
import { CONCURRENCY_LIMITS, type ConcurrencyLimits } from './deliveries/concurrency-limiter.ts'
import { createSharedRates } from './deliveries/rate-limiter.ts'
import { createRecorder } from './deliveries/record-attempt.ts'
import { RETRY_SCHEDULE_MS } from './deliveries/retry.ts'
import { Worker } from './deliveries/worker.ts'
import { createDispatcher } from './dispatch.ts'
import type { EndpointContext } from './endpoints/endpoint.ts'
import { createHealthWatch } from './endpoints/watch-health.ts'
import { createRehearse } from './rehearse.ts'
import { createDeliveryRetention, type DeliveryRetention } from './retention.ts'
import { createWebhookRpc } from './rpc.ts'
import { createAddressGuard } from './sender/address-guard.ts'
import { createHttpClient } from './sender/http-client.ts'
import { createSender } from './sender/send-delivery.ts'

export interface WebhooksOptions {
  readonly encrypter: Encrypter
  readonly timeText: TimeText
  readonly bankNames: BankNames
  /** Whether endpoint URLs may be http as well as https. */
  readonly allowHttp: boolean
  /** Ranges of non-public addresses that are allowed, such as "127.0.0.0/8". */
  readonly allowedCidrs: readonly string[]
  /** How long completed deliveries are kept. */
  readonly retentionDays: number
  /** How long a claim lasts. A crash delays the attempts in progress by this long. */
  readonly leaseMs: number
  /** For one request and its response. Well below the lease. */
  readonly requestTimeoutMs: number
  /** An egress proxy that requests go through. */
  readonly proxyUrl?: string | undefined
  /** Resolves the host names of endpoints; default: the system's resolver. */
  readonly resolve?: Resolve | undefined
  readonly retryScheduleMs?: readonly number[]
  readonly concurrencyLimits?: ConcurrencyLimits
  readonly observeBatches?: ObserveBatches
}

/** The rpcs for endpoints and deliveries, and the loops that deliver webhooks. */
export interface Webhooks {
  readonly rpc: ServiceImpl<typeof WebhookService>
  /** The dependencies of the use cases of endpoints and deliveries, for other rpcs that call them. */
  readonly context: EndpointContext
  readonly retention: Pick<DeliveryRetention, 'run' | 'stop'>
  /** Starts to create deliveries from events, to send due deliveries, and to delete old deliveries. */
  start(): void
  /** Notifies that the event log has new events. Cheap; may be called at any rate. */
  wake(): void
  /** Ends within about 8 s: waits for the attempts in progress, then releases their claims. */
  stop(): Promise<void>
}

/** @throws RangeError if a range is malformed */
export function createWebhooks(runtime: Runtime, options: WebhooksOptions): Webhooks {
  // Losing a commit in a crash is safe: at worst a delivery is repeated, with the same id.
  const { relaxedPool } = runtime.database
  const { encrypter, timeText, bankNames, leaseMs, observeBatches } = options
  const { retryScheduleMs: scheduleMs = RETRY_SCHEDULE_MS } = options
  const guard = createAddressGuard(options.allowedCidrs)
  const rules = { allowHttp: options.allowHttp, guard }
  const httpClient = createHttpClient({
    rules,
    timeoutMs: options.requestTimeoutMs,
    proxyUrl: options.proxyUrl,
    resolve: options.resolve,
  })
  // Deliveries to a disabled endpoint stay paused for as long as retries last.
  const pausedMaxMs = scheduleMs.reduce((sum, ms) => sum + ms, 0)
  const unclear = createUnclearClaims(relaxedPool)
  const background = { leaseMs, pausedMaxMs, unclear }
  const rates = createSharedRates(runtime)
  const onFailure = createHealthWatch(runtime)
  const counter = createAttemptCounter(runtime)
  const worker = new Worker(runtime, {
    ...background,
    limits: options.concurrencyLimits ?? CONCURRENCY_LIMITS,
    createRate: rates.create,
    steps: {
      send: createSender(runtime, {
        encrypter,
        timeText,
        bankNames,
        httpClient,
        loadConnection: createLoadConnection(relaxedPool, encrypter),
      }),
      record: createRecorder(runtime, {
        ...background,
        scheduleMs,
        random: Math.random,
        onFailure,
        onEnded: counter.count,
        observeBatches,
      }),
    },
  })
  const onDue = (): void => worker.wake()
  const dispatcher = createDispatcher(runtime, { ...background, worker, onDue })
  const retention = createDeliveryRetention(runtime, {
    ...background,
    retentionDays: options.retentionDays,
  })
  const context = { ...runtime, encrypter, rules, onDue }
  return {
    rpc: createWebhookRpc(
      context,
      timeText,
      bankNames,
      createRehearse({ ...options, context, httpClient }),
    ),
    context,
    retention,
    start() {
      worker.start()
      counter.start()
      dispatcher.start()
      retention.start()
    },
    // The dispatcher wakes the worker when it creates deliveries.
    wake: dispatcher.wake,
    async stop() {
      await Promise.all([dispatcher.stop(), worker.stop(), retention.stop()])
      await Promise.all([httpClient.close(), rates.stop(), counter.stop()])
    },
  }
}
