import { defineEntity, p } from '@mikro-orm/core'
import { EndpointEntity } from '../endpoints/endpoint.entity.ts'
import type { DeliveryState } from './delivery.ts'

/**
 * The delivery of one event to one endpoint. Partitioned by `position`: a statement that knows the
 * position opens one partition, and retention drops whole partitions.
 */
export const DeliveryEntity = defineEntity({
  name: 'Delivery',
  tableName: 'webhook_delivery',
  properties: {
    id: p.text().primary(),
    // With a foreign key, dropping a partition would wait for all transactions that use endpoints.
    endpoint: p.manyToOne(EndpointEntity).createForeignKeyConstraint(false),
    position: p.bigint().primary().autoincrement(false),
    /** The event's sequence number in its business and mode. */
    sequence: p.bigint().defaultRaw('0'),
    /** The sequence number of the previous event for the endpoint; 0 for the first. */
    previousSequence: p.bigint().defaultRaw('0'),
    state: p.text().$type<DeliveryState>(),
    attempts: p.integer(),
    /** The number of attempts made when the retry schedule was last restarted. */
    scheduleFrom: p.integer().default(0),
    /** When the next attempt is due. */
    dueAt: p.datetime(3),
    /** When the claim of an instance ends. Not stored in `due_at`, because that is indexed. */
    leasedUntil: p.datetime(3).nullable(),
    /** The fencing token: counts claims; only the latest claimant may complete the delivery. */
    claims: p.integer(),
    createdAt: p.datetime(3),
    completedAt: p.datetime(3).nullable(),
    /** Why it failed. */
    failure: p.text().nullable(),
    /** The latest attempt, with the columns of AttemptEntity; null before the first. */
    startedAt: p.datetime(3).nullable(),
    latencyMs: p.integer().nullable(),
    status: p.integer().nullable(),
    responseBody: p.text().nullable(),
    error: p.text().nullable(),
  },
  uniques: [{ properties: ['endpoint', 'position'] }],
  indexes: [
    {
      name: 'webhook_delivery_failed_index',
      properties: ['endpoint', 'position'],
      where: "state = 'FAILED'",
    },
    {
      name: 'webhook_delivery_due_index',
      properties: ['endpoint', 'dueAt'],
      where: "state = 'PENDING'",
    },
  ],
  checks: [
    { name: 'webhook_delivery_state', expression: "state in ('PENDING', 'DELIVERED', 'FAILED')" },
    {
      name: 'webhook_delivery_completed',
      expression:
        "(completed_at is null) = (state = 'PENDING') and (failure is null) = (state <> 'FAILED')",
    },
  ],
})

/**
 * One request to an endpoint and its outcome. Append-only. The latest attempt is kept in the row of
 * its delivery until another follows; most deliveries have only one. Partitioned like deliveries.
 */
export const AttemptEntity = defineEntity({
  name: 'Attempt',
  tableName: 'webhook_attempt',
  properties: {
    deliveryId: p.text().primary(),
    number: p.integer().primary(),
    /** The position of the delivery. */
    position: p.bigint().primary().autoincrement(false),
    startedAt: p.datetime(3),
    latencyMs: p.integer(),
    /** HTTP status; null without a response. */
    status: p.integer().nullable(),
    /** The first 4 KiB of the response body. */
    responseBody: p.text(),
    /** Why the attempt failed; empty if it succeeded. */
    error: p.text(),
  },
})

/**
 * The positions of the event log up to which deliveries were created: a row for each move;
 * the highest counts. Rows are inserted and deleted, never updated: the versions of an updated row
 * would all be read for as long as any snapshot is open.
 */
export const DispatcherEntity = defineEntity({
  name: 'Dispatcher',
  tableName: 'webhook_dispatcher',
  properties: {
    position: p.bigint().primary().autoincrement(false),
  },
})

/**
 * The attempts that ended in one hour: a row for each business and mode, and a row with an empty business for all
 * businesses together. Instances add their counts every few seconds.
 */
export const WebhookHourEntity = defineEntity({
  name: 'WebhookHour',
  tableName: 'webhook_hour',
  properties: {
    /** Empty: all businesses. */
    businessId: p.text().primary(),
    live: p.boolean().primary(),
    hour: p.datetime(3).primary(),
    attempts: p.bigint(),
    delivered: p.bigint(),
    /** Deliveries whose last attempt failed. */
    failed: p.bigint(),
    /** How many deliveries took how long: see `bucketOf`. */
    delays: p.array((text) => Number(text)).columnType('int[]'),
  },
  // For retention.
  indexes: [{ properties: ['hour'] }],
})
