import { defineEntity, type InferEntity, p } from '@mikro-orm/core'

export const BusinessEntity = defineEntity({
  name: 'Business',
  tableName: 'business',
  properties: {
    id: p.text().primary(),
    name: p.text(),
    alias: p.text(),
    /** The sustained requests per second of each key; null: the default. */
    rateLimitPerSecond: p.integer().nullable(),
    /** The most requests at once after a pause; null: twice the sustained rate. */
    rateLimitBurst: p.integer().nullable(),
    createdAt: p.datetime(3),
  },
  indexes: [
    // Prefixes in upper or lower case.
    {
      name: 'business_name_index',
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "business" (lower(${columns.name}) collate "C", ${columns.id})`,
    },
    {
      name: 'business_alias_index',
      expression: (columns, _table, indexName) =>
        `create index ${indexName} on "business" (lower(${columns.alias}) collate "C", ${columns.id})`,
    },
  ],
  checks: [
    {
      name: 'business_rate_limit_check',
      expression:
        'case when rate_limit_per_second is null then rate_limit_burst is null else rate_limit_per_second > 0 and (rate_limit_burst is null or rate_limit_burst > 0 and rate_limit_burst <= 60 * rate_limit_per_second) end',
    },
  ],
})

export type Business = InferEntity<typeof BusinessEntity>
