import { defineEntity, type InferEntity, p } from '@mikro-orm/core'
import { BusinessEntity } from '../../businesses/business.entity.ts'
import type { DisabledReason, EndpointProfile, LegacySignature } from './endpoint.ts'

/** The columns of the `RequestFormat` of an endpoint. */
const RequestFormatEmbeddable = defineEntity({
  name: 'RequestFormat',
  embeddable: true,
  properties: {
    profile: p.text().$type<EndpointProfile>().strictNullable(),
    legacySignature: p.text().$type<LegacySignature>().strictNullable(),
    eventName: p.text().strictNullable(),
    payerAsArray: p.boolean().default(false),
  },
})

export const EndpointEntity = defineEntity({
  name: 'Endpoint',
  tableName: 'webhook_endpoint',
  properties: {
    id: p.text().primary(),
    business: p.manyToOne(BusinessEntity),
    /** Whether it receives the events of live mode or, if false, of test mode. */
    live: p.boolean(),
    url: p.text(),
    kinds: p.array(),
    description: p.text(),
    /** The maximum number of concurrent requests from each instance. */
    concurrency: p.integer(),
    /** The last position of the event log at creation. The endpoint receives later events. */
    afterPosition: p.bigint(),
    /** The sequence number of the last event for the endpoint whose delivery retention has dropped. */
    droppedSequence: p.bigint().defaultRaw('0'),
    /** The most requests a second from all instances together; 0: no limit. */
    rateLimit: p.integer().default(0),
    /** Whether the next event waits until the previous event was acknowledged. */
    ordered: p.boolean().default(false),
    /** For an ordered endpoint: a position before all its pending deliveries, see `claimOrdered`. */
    orderedFrom: p.bigint().defaultRaw('0'),
    /** Counts the changes of its connection, 0 if it never had one. Caches depend on it. */
    connectionVersion: p.integer().default(0),
    /** Headers and authentication: see `Connection`. */
    connectionEncrypted: p.blob().nullable(),
    /** When its client certificate stops being valid; null if it has none. */
    certificateExpiresAt: p.datetime(3).nullable(),
    format: p.embedded(RequestFormatEmbeddable).prefix(false),
    secrets: () => p.oneToMany(SecretEntity).mappedBy('endpoint'),
    createdAt: p.datetime(3),
    /** The first failed attempt since the last success. */
    failingSince: p.datetime(3).nullable(),
    /** When ENDPOINT_FAILING was recorded for the current failure. */
    warnedAt: p.datetime(3).nullable(),
    disabledAt: p.datetime(3).nullable(),
    disabledReason: p.text().$type<DisabledReason>().nullable(),
    deletedAt: p.datetime(3).nullable(),
  },
  indexes: [
    { properties: ['business', 'id'] },
    {
      name: 'webhook_endpoint_connection_index',
      properties: ['id'],
      where: 'connection_encrypted is not null',
    },
    {
      name: 'webhook_endpoint_failing_index',
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "webhook_endpoint" (${columns.live}, (coalesce(${columns.failingSince}, ${columns.disabledAt})), ${columns.id}) where deleted_at is null and (disabled_at is null and failing_since is not null or disabled_reason <> 'REQUESTED')`,
    },
  ],
  checks: [
    { name: 'webhook_endpoint_rate_limit', expression: 'rate_limit >= 0 and rate_limit <= 1000' },
    { name: 'webhook_endpoint_concurrency', expression: 'concurrency between 1 and 50' },
    {
      name: 'webhook_endpoint_profile',
      expression:
        "profile in ('STANDARD', 'WIAXY') and legacy_signature in ('MD5', 'HMAC_BODY') and (profile = 'WIAXY' or legacy_signature is null and event_name is null and not payer_as_array)",
    },
    {
      name: 'webhook_endpoint_disabled',
      expression:
        "(disabled_at is null) = (disabled_reason is null) and disabled_reason in ('REQUESTED', 'GONE', 'FAILING')",
    },
  ],
})

export type Endpoint = InferEntity<typeof EndpointEntity>

/** A secret that signs requests to an endpoint, encrypted. The newest never expires. */
export const SecretEntity = defineEntity({
  name: 'WebhookSecret',
  tableName: 'webhook_secret',
  properties: {
    endpoint: () => p.manyToOne(EndpointEntity).primary(),
    /** 1, 2, 3 … within the endpoint: the newest is the highest. */
    number: p.integer().primary(),
    secretEncrypted: p.blob(),
    createdAt: p.datetime(3),
    expiresAt: p.datetime(3).nullable(),
    /** In the WIAXY profile: whether it signs only test events, until the switch to it. */
    isNext: p.boolean().default(false),
  },
})

export type Secret = InferEntity<typeof SecretEntity>
