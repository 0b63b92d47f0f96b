import { fromBinary } from '@bufbuild/protobuf'
import { type Timestamp, timestampMs } from '@bufbuild/protobuf/wkt'
import { describe, expect, test } from 'vitest'
import { EventSchema } from '../../gen/inflow/event/v1/event_pb.ts'
import { DeliveryStatus } from '../../gen/inflow/webhook/v1/delivery_pb.ts'
import { DisabledReason, EndpointStatus } from '../../gen/inflow/webhook/v1/endpoint_pb.ts'
import type { StoredDelivery } from '../../src/webhooks/deliveries/delivery.ts'
import type { Endpoint, Secret } from '../../src/webhooks/endpoints/endpoint.entity.ts'
import { STANDARD_FORMAT } from '../../src/webhooks/endpoints/request-format.ts'
import {
  encodeEndpointEvent,
  toAttemptMessage,
  toDeliveryMessage,
  toDeliveryState,
  toEndpointMessage,
} from '../../src/webhooks/message.ts'

const ms = (at: Timestamp | undefined) => at && timestampMs(at)

const endpoint = {
  id: 'ep_1',
  business: { id: 'biz_1' },
  live: true,
  url: 'https://shop.example:8443/hooks/secret?token=x',
  kinds: ['PAYMENT_NOTIFICATION'],
  description: 'shop',
  concurrency: 7,
  afterPosition: 3n,
  droppedSequence: 0n,
  rateLimit: 0,
  ordered: false,
  orderedFrom: 0n,
  connectionVersion: 0,
  connectionEncrypted: null,
  certificateExpiresAt: null,
  format: STANDARD_FORMAT,
  createdAt: new Date(1_000),
  failingSince: null,
  warnedAt: null,
  disabledAt: null,
  disabledReason: null,
  deletedAt: null,
} as Partial<Endpoint> as Endpoint
const secret = (createdMs: number, expiresMs: number | null): Secret => ({
  endpoint,
  number: 1,
  secretEncrypted: Buffer.alloc(0),
  createdAt: new Date(createdMs),
  expiresAt: expiresMs === null ? null : new Date(expiresMs),
  isNext: false,
})

describe('an endpoint', () => {
  test('shows its settings, and of its secrets only their times', () => {
    const secrets = [secret(5_000, null), secret(4_000, 6_000)]
    const message = toEndpointMessage({ endpoint, secrets, connection: undefined })
    expect(message).toMatchObject({
      id: 'ep_1',
      businessId: 'biz_1',
      live: true,
      url: endpoint.url,
      kinds: ['PAYMENT_NOTIFICATION'],
      description: 'shop',
      concurrency: 7,
      status: EndpointStatus.ENABLED,
      disabledReason: DisabledReason.UNSPECIFIED,
    })
    expect([message.createdAt, message.disabledAt, message.failingSince].map(ms)).toEqual([
      1_000,
      undefined,
      undefined,
    ])
    expect(message.secrets.map((each) => [ms(each.createdAt), ms(each.expiresAt)])).toEqual([
      [5_000, undefined],
      [4_000, 6_000],
    ])
  })

  test.each(['REQUESTED', 'GONE', 'FAILING'] as const)(
    'shows since when it is disabled, as %s',
    (disabledReason) => {
      const disabled = {
        disabledAt: new Date(9_000),
        failingSince: new Date(8_000),
        disabledReason,
      }
      const message = toEndpointMessage({
        endpoint: { ...endpoint, ...disabled },
        secrets: [],
        connection: undefined,
      })
      expect(message).toMatchObject({
        status: EndpointStatus.DISABLED,
        disabledReason: DisabledReason[disabledReason],
      })
      expect([message.disabledAt, message.failingSince].map(ms)).toEqual([9_000, 8_000])
    },
  )

  test('has events that show of its URL the origin alone: they go to other receivers', () => {
    const event = { eventId: 'evt_1', kind: 'ENDPOINT_FAILING', nowMs: 10_000 } as const
    const encoded = encodeEndpointEvent(endpoint, event)
    const decoded = fromBinary(EventSchema, encoded)
    expect(decoded).toMatchObject({
      id: 'evt_1',
      businessId: 'biz_1',
      kind: 'ENDPOINT_FAILING',
      live: true,
      payload: { case: 'endpoint', value: { id: 'ep_1', url: 'https://shop.example:8443' } },
    })
    expect(ms(decoded.occurredAt)).toBe(10_000)
    expect(Buffer.from(encoded).includes('token=x')).toBe(false)
  })
})

describe('a delivery', () => {
  const attempt = {
    number: 2,
    startedAtMs: 3_000,
    latencyMs: 40,
    status: 503,
    responseBody: 'busy',
    error: 'e',
  }
  const pending: StoredDelivery = {
    id: 'dlv_1',
    endpointId: 'ep_1',
    endpointUrl: 'https://shop.example/hooks',
    endpointDescription: 'Orders',
    position: 7n,
    eventId: 'evt_1',
    eventKind: 'PAYMENT_NOTIFICATION',
    event: null,
    state: 'PENDING',
    attempts: 2,
    createdAtMs: 1_000,
    dueAtMs: 0,
    completedAtMs: null,
    failure: '',
    latestAttempt: attempt,
  }

  test('that is pending shows when it is due, and its latest attempt', () => {
    const message = toDeliveryMessage(pending)
    expect(message).toMatchObject({
      id: 'dlv_1',
      endpointId: 'ep_1',
      eventId: 'evt_1',
      eventKind: 'PAYMENT_NOTIFICATION',
      status: DeliveryStatus.PENDING,
      attemptCount: 2,
      failure: '',
      latestAttempt: {
        number: 2,
        latencyMs: 40,
        statusCode: 503,
        responseBody: 'busy',
        error: 'e',
      },
    })
    expect([message.createdAt, message.dueAt, message.completedAt].map(ms)).toEqual([
      1_000,
      0,
      undefined,
    ])
    expect(ms(message.latestAttempt?.startedAt)).toBe(3_000)
    expect(toAttemptMessage(attempt)).toEqual(message.latestAttempt)
  })

  test('that failed without an attempt shows when and why', () => {
    const ended = { state: 'FAILED', dueAtMs: null, completedAtMs: 0, failure: 'gone' } as const
    const message = toDeliveryMessage({ ...pending, ...ended, attempts: 0, latestAttempt: null })
    expect(message).toMatchObject({ status: DeliveryStatus.FAILED, failure: 'gone' })
    expect([message.dueAt, message.completedAt].map(ms)).toEqual([undefined, 0])
    expect(message.latestAttempt).toBeUndefined()
  })

  test('has each status of the contract', () => {
    for (const state of ['PENDING', 'DELIVERED', 'FAILED'] as const) {
      expect(toDeliveryState(DeliveryStatus[state])).toBe(state)
      expect(toDeliveryMessage({ ...pending, state }).status).toBe(DeliveryStatus[state])
    }
    expect(toDeliveryState(DeliveryStatus.UNSPECIFIED)).toBeUndefined()
  })
})
