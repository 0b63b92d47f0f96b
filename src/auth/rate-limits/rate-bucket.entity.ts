import { defineEntity, p } from '@mikro-orm/core'

/** What all instances together have left of a rate limit. It may be lost: buckets begin full. */
export const RateBucketEntity = defineEntity({
  name: 'RateBucket',
  tableName: 'rate_bucket',
  properties: {
    name: p.text().primary(),
    /** As of `at`; below zero when more was admitted than should have been. */
    tokens: p.double(),
    perSecond: p.double(),
    burst: p.double(),
    at: p.datetime(3),
  },
})
