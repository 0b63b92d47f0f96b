import { defineEntity, p } from '@mikro-orm/core'
import { EndpointEntity } from './endpoint.entity.ts'

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
    /** When it is due next; while an attempt is under way, when its lease ends. */
    dueAt: p.datetime(3),
    /** Counts claims: only the latest claimant may complete. */
    fence: p.integer(),
    createdAt: p.datetime(3),
    completedAt: p.datetime(3).nullable(),
  },
  uniques: [{ properties: ['position', 'endpoint'] }],
  indexes: [
    {
      name: 'webhook_delivery_due_index',
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "webhook_delivery" (${columns.endpoint}, ${columns.dueAt}) where state = 'PENDING'`,
    },
  ],
  checks: [
    { name: 'webhook_delivery_state', expression: "state in ('PENDING', 'DELIVERED', 'FAILED')" },
  ],
})

/** One request to an endpoint and what came of it. Append-only. */
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
