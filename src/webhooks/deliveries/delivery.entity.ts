import { defineEntity, p } from '@mikro-orm/core'
import { EndpointEntity } from '../endpoints/endpoint.entity.ts'

/** One event on its way to one endpoint. */
export const DeliveryEntity = defineEntity({
  name: 'Delivery',
  tableName: 'webhook_delivery',
  properties: {
    id: p.text().primary(),
    endpoint: p.manyToOne(EndpointEntity).mapToPk(),
    position: p.bigint(),
    state: p.text(),
    attempts: p.integer(),
    /** How many attempts there were when the schedule of retries was begun anew. */
    scheduleFrom: p.integer().default(0),
    /** When it is due next. */
    dueAt: p.datetime(3),
    /** Until when it is some instance's, which attempts it. Beside `due_at`, as that is indexed. */
    leasedUntil: p.datetime(3).nullable(),
    /** The fence: counts claims, and only the latest claimant may complete. */
    claims: p.integer(),
    createdAt: p.datetime(3),
    completedAt: p.datetime(3).nullable(),
    /** Why it was given up. */
    failure: p.text().nullable(),
    /** The latest attempt, like those in AttemptEntity; absent before the first one. */
    startedAt: p.datetime(3).nullable(),
    latencyMs: p.integer().nullable(),
    status: p.integer().nullable(),
    answer: p.text().nullable(),
    error: p.text().nullable(),
  },
  uniques: [{ properties: ['endpoint', 'position'] }],
  indexes: [
    {
      name: 'webhook_delivery_failed_index',
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "webhook_delivery" (${columns.endpoint}, ${columns.position}) where state = 'FAILED'`,
    },
    {
      name: 'webhook_delivery_due_index',
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "webhook_delivery" (${columns.endpoint}, ${columns.dueAt}) where state = 'PENDING'`,
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
 * One request to an endpoint and what came of it. Append-only. The latest one is in the row of its
 * delivery until another follows it; most deliveries have no other.
 */
export const AttemptEntity = defineEntity({
  name: 'Attempt',
  tableName: 'webhook_attempt',
  properties: {
    delivery: p.manyToOne(DeliveryEntity).mapToPk().primary(),
    number: p.integer().primary(),
    startedAt: p.datetime(3),
    latencyMs: p.integer(),
    /** HTTP status; absent when there was no answer. */
    status: p.integer().nullable(),
    /** The first 4 KiB of the answer's body. */
    answer: p.text(),
    /** Why it failed, in plain words; empty when it did not. */
    error: p.text(),
  },
})

/** One row: the last position of the event log that deliveries were made for. */
export const DispatcherEntity = defineEntity({
  name: 'Dispatcher',
  tableName: 'webhook_dispatcher',
  properties: {
    id: p.integer().primary().autoincrement(false),
    position: p.bigint(),
  },
  checks: [{ name: 'webhook_dispatcher_one_row', expression: 'id = 1' }],
})
