import { defineEntity, p } from '@mikro-orm/core'

/** A token bucket shared by all instances. A crash may lose it: buckets start full. */
export const RateBucketEntity = defineEntity({
  name: 'RateBucket',
  tableName: 'rate_bucket',
  properties: {
    name: p.text().primary(),
    /** As of `at`; negative if more was admitted than the limit allows. */
    tokens: p.double(),
    perSecond: p.double(),
    burst: p.double(),
    at: p.datetime(3),
  },
})
