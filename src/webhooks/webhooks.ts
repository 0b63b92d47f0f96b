import type { ServiceImpl } from '@connectrpc/connect'
import type { Logger } from 'pino'
import type { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import type { Clock, TimeText } from '../core/clock.ts'
import type { Encrypter } from '../crypto/encryption.ts'
import type { Resolve } from '../net/name-resolver.ts'
import type { Database } from '../postgres/orm.ts'
import { type ConcurrencyLimits, PACING_LIMITS } from './deliveries/concurrency-limiter.ts'
import { createDispatcher } from './deliveries/dispatcher.ts'
import { createRecorder } from './deliveries/record-attempt.ts'
import { createDeliveryRetention, type DeliveryRetention } from './deliveries/retention.ts'
import { RETRY_SCHEDULE_MS } from './deliveries/retry.ts'
import { createWorker } from './deliveries/worker.ts'
import { createHealthWatch } from './endpoints/watch-health.ts'
import { createWebhookRpc } from './rpc.ts'
import { createAddressGuard } from './sender/address-guard.ts'
import { createHttpClient } from './sender/http-client.ts'
import { createSender } from './sender/send-delivery.ts'

export interface WebhooksOptions {
  readonly database: Database
  readonly encrypter: Encrypter
  readonly clock: Clock
  readonly timeText: TimeText
  readonly log: Logger
  /** Called after a commit that added an event. */
  readonly onCommit: () => void
  /** Whether endpoints may be http beside https. */
  readonly allowHttp: boolean
  /** Ranges of non-public addresses that are opened, such as "127.0.0.0/8". */
  readonly allowedCidrs: readonly string[]
  /** How long completed deliveries are kept. */
  readonly retentionDays: number
  /** How long a claim holds. A crash delays what was under way by this much. */
  readonly leaseMs: number
  /** For one request and its answer. Well below the lease. */
  readonly requestTimeoutMs: number
  /** An egress proxy that requests go through. */
  readonly proxyUrl?: string | undefined
  /** Finds the addresses of endpoints' names; by default as the system's settings say. */
  readonly resolve?: Resolve | undefined
  readonly retryScheduleMs?: readonly number[]
  readonly concurrencyLimits?: ConcurrencyLimits
  /** Where other processes of this machine send too. */
  readonly others?: WebhooksElsewhere | undefined
}

/** The processes of the machine that send webhooks beside this one. */
interface WebhooksElsewhere {
  /** Something is due. Cheap. */
  deliveriesDue(): void
  /** How many of the requests that an endpoint may get at once are this process's to make. */
  concurrencyOf(endpointId: string, concurrency: number): number
}

/** Webhooks: the rpcs of endpoints and deliveries, and the work of delivering. */
export interface Webhooks {
  readonly rpc: ServiceImpl<typeof WebhookService>
  readonly retention: Pick<DeliveryRetention, 'run'>
  /** Begins to send what is due. */
  start(): void
  /** Begins to make deliveries of events, and to delete old ones. */
  startBackground(): void
  /** The event log moved. Cheap, and may be called at any rate. */
  wake(): void
  /** Another process made deliveries. Cheap. */
  deliveriesDue(): void
  /** Ends within some 8 s: attempts under way are waited for, and then given back. */
  stop(): Promise<void>
}

/** @throws RangeError when a range is malformed */
export function createWebhooks(options: WebhooksOptions): Webhooks {
  const { database, encrypter, clock, timeText, log, leaseMs, onCommit, others } = options
  const { retryScheduleMs: scheduleMs = RETRY_SCHEDULE_MS } = options
  const { orm } = database
  // Whatever of it a crash undoes is done again: at worst a delivery is repeated, with its id.
  const pool = database.relaxedPool
  const guard = createAddressGuard(options.allowedCidrs)
  const rules = { allowHttp: options.allowHttp, guard }
  const httpClient = createHttpClient({
    rules,
    timeoutMs: options.requestTimeoutMs,
    proxyUrl: options.proxyUrl,
    resolve: options.resolve,
  })
  const worker = createWorker({
    pool,
    clock,
    log,
    limits: options.concurrencyLimits ?? PACING_LIMITS,
    leaseMs,
    concurrencyOf: others?.concurrencyOf,
    steps: {
      send: createSender({ encrypter, timeText, httpClient, log }),
      record: createRecorder({
        pool,
        clock,
        log,
        scheduleMs,
        leaseMs,
        random: Math.random,
        onFailure: createHealthWatch({ orm, clock, log, onCommit }),
      }),
    },
  })
  const due = (): void => {
    worker.wake()
    others?.deliveriesDue()
  }
  const dispatcher = createDispatcher({
    pool,
    clock,
    log,
    leaseMs,
    worker: { ...worker, wake: due },
  })
  const retention = createDeliveryRetention({
    pool,
    clock,
    log,
    retentionDays: options.retentionDays,
    holdMs: scheduleMs.reduce((sum, ms) => sum + ms, 0),
  })
  return {
    rpc: createWebhookRpc({
      orm,
      pool,
      encrypter,
      clock,
      rules,
      onCommit,
      due,
    }),
    retention,
    start: worker.start,
    startBackground() {
      dispatcher.start()
      retention.start()
    },
    // The dispatcher wakes the worker when something comes of it.
    wake: dispatcher.wake,
    deliveriesDue: worker.wake,
    async stop() {
      await Promise.all([dispatcher.stop(), worker.stop(), retention.stop()])
      await httpClient.close()
    },
  }
}
