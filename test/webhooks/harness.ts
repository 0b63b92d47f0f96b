import type { MessageInitShape } from '@bufbuild/protobuf'
import {
  type Client,
  createClient,
  createRouterTransport,
  type Interceptor,
} from '@connectrpc/connect'
import { afterEach } from 'vitest'
import {
  type CreateEndpointRequestSchema,
  WebhookService,
} from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { systemClock } from '../../src/core/clock.ts'
import type { Database } from '../../src/postgres/orm.ts'
import type { Runtime } from '../../src/postgres/runtime.ts'
import { toConnectError, toFault } from '../../src/server/status.ts'
import type { Webhooks, WebhooksOptions } from '../../src/webhooks/webhooks.ts'
import { useDatabase } from '../support/database.ts'
import { sequence } from '../support/events.ts'
import { setOperator } from '../support/operator.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { waitFor, waitUntil } from '../support/wait-for.ts'
import { addBusiness, logEvents, openWebhooks, type TestEvent } from './fixture.ts'

/** A delivery as it is stored, with its attempts. */
export interface DeliveryRow {
  readonly id: string
  readonly state: string
  readonly attempts: number
  readonly completed_at: Date | null
  readonly failure: string | null
  readonly due_at: Date
  readonly log:
    | readonly { status: number | null; error: string; response_body: string; latency_ms: number }[]
    | null
}

/** All attempts of the delivery `d`; the latest is in the row of the delivery. */
export const ATTEMPT_LOG = `(select json_agg(a order by a.number) from (
    select number, status, error, response_body, started_at, latency_ms from webhook_attempt
      where delivery_id = d.id
    union all select d.attempts, d.status, d.error, d.response_body, d.started_at, d.latency_ms
      where d.started_at is not null) a)`

/** Webhooks with their own database, without the rest of the service. */
export interface Harness {
  readonly url: string
  readonly database: Database
  receiver(): Promise<Receiver>
  /** Webhooks that run until the test ends. */
  started(options?: Partial<WebhooksOptions & Runtime>, on?: Database): Webhooks
  /** Webhooks that send nothing, for calls of their rpcs. */
  idle(options?: Partial<WebhooksOptions & Runtime>): Webhooks
  business(): Promise<string>
  /** Logs events and wakes all started webhooks. */
  publish(...events: TestEvent[]): Promise<void>
  /** Numbers the events that the webhooks themselves wrote to the outbox. */
  pump(): Promise<void>
  /** The position of the last event; 0 without any. */
  lastPosition(): Promise<bigint>
  /** Ends the last partition of deliveries and of attempts after all events, or some more. */
  cut(more?: bigint): Promise<void>
  deliveries(endpointId: string): Promise<DeliveryRow[]>
  /**
   * Waits until all deliveries of an endpoint are completed. A test that moves the clock ends the
   * leases of attempts not yet recorded, which are then sent twice.
   */
  allCompleted(endpointId: string): Promise<unknown>
  /** Closes a resource when the test ends. */
  closing(close: () => Promise<unknown>): void
}

export function useWebhooks(): Harness {
  const db = useDatabase()
  const closing: (() => Promise<unknown>)[] = []
  const running = new Set<Webhooks>()
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close()
    running.clear()
    // Otherwise the next test would send the deliveries that this one leaves pending.
    await db.database.durablePool.query(
      'truncate webhook_attempt, webhook_delivery, webhook_secret, webhook_endpoint',
    )
  })
  const wake = () => {
    for (const webhooks of running) webhooks.wake()
  }
  const pump = async () => {
    await sequence(db.database.durablePool)
    wake()
  }
  const lastPosition = async () => {
    const { rows } = await db.database.durablePool.query(
      'select coalesce(max(position), 0) as last from event_log',
    )
    return BigInt(rows[0].last)
  }
  return {
    get url() {
      return db.url
    },
    get database() {
      return db.database
    },
    async receiver() {
      const receiver = await startReceiver()
      closing.push(receiver.close)
      return receiver
    },
    started(options = {}, on = db.database) {
      // Like the service, but in the background.
      const onCommit = () => void pump().catch(() => undefined)
      const webhooks = openWebhooks(on, { onCommit, ...options })
      webhooks.start()
      running.add(webhooks)
      closing.push(async () => {
        await webhooks.stop()
        // A trigger in progress must not run after the database is dropped.
        await sequence(db.database.durablePool)
      })
      return webhooks
    },
    idle(options = {}) {
      const webhooks = openWebhooks(db.database, options)
      closing.push(() => webhooks.stop())
      return webhooks
    },
    business: () => addBusiness(db.database),
    async publish(...events) {
      await logEvents(db.database, events)
      wake()
    },
    pump,
    lastPosition,
    async cut(more = 0n) {
      const { durablePool } = db.database
      const boundary = `${(await lastPosition()) + 1n + more}`
      for (const table of ['webhook_delivery', 'webhook_attempt']) {
        // It gives up while others use the table.
        await waitFor(() =>
          durablePool.query('select cut_partition($1, $2, $2)', [table, boundary]),
        )
      }
    },
    async deliveries(endpointId) {
      const { rows } = await db.database.durablePool.query<DeliveryRow>(
        `select d.id, d.state, d.attempts, d.completed_at, d.failure, d.due_at,
          ${ATTEMPT_LOG} as log
        from webhook_delivery d where d.endpoint_id = $1 order by d.position`,
        [endpointId],
      )
      return rows
    },
    async allCompleted(endpointId) {
      // Those of events that are not dispatched yet are made later.
      const pending = `select where exists (
          select from webhook_delivery where endpoint_id = $1 and state = 'PENDING')
        or (select max(position) from event_log) > (select max(position) from webhook_dispatcher)`
      await waitUntil(
        async () => (await db.database.durablePool.query(pending, [endpointId])).rowCount === 0,
      )
    },
    closing: (close) => closing.push(close),
  }
}

/** A client of the rpcs, with faults as callers see them. */
export function clientOf(webhooks: Webhooks): Client<typeof WebhookService> {
  const faults: Interceptor = (next) => async (request) => {
    setOperator(request.contextValues)
    try {
      return await next(request)
    } catch (error) {
      throw toConnectError(toFault(error), 'req_1')
    }
  }
  const transport = createRouterTransport(({ service }) => service(WebhookService, webhooks.rpc), {
    router: { interceptors: [faults] },
  })
  return createClient(WebhookService, transport)
}

/** An endpoint at a receiver. */
export async function addEndpoint(
  webhooks: Webhooks,
  businessId: string,
  url: string,
  more: MessageInitShape<typeof CreateEndpointRequestSchema> = {},
): Promise<{ id: string; secret: string }> {
  const response = await clientOf(webhooks).createEndpoint({ businessId, url, ...more })
  return { id: response.endpoint!.id, secret: response.secret }
}

/** A running clock that a test can advance. */
export function movableClock() {
  let aheadMs = 0
  return {
    now: () => systemClock.now() + aheadMs,
    advance(ms: number) {
      aheadMs += ms
    },
  }
}
