import { defineConfig } from 'vitest/config'
import { common } from './vitest.config.ts'

/** What depends on the server: payments, events, webhooks, settlement, reconciliation, failover and plans. */
export const SERVER_FILES = [
  'test/postgres/{foreign-settings,plans,row-locks,migrations}.test.ts',
  'test/protocols/rest/{responses,lists}.test.ts',
  'test/transactions/**/*.test.ts',
  'test/events/**/*.test.ts',
  'test/webhooks/deliveries/**/*.test.ts',
  'test/settlement/**/*.test.ts',
  'test/reconciliation/**/*.test.ts',
  'test/overview/**/*.test.ts',
  'test/faults/failover.test.ts',
]

/** Rules, and what waits for retries and limits: the same on every server. */
export const SAME_ON_EVERY_SERVER = [
  'test/{events/{cursor,message,tail-window},transactions/{message,ledger}}.test.ts',
  'test/webhooks/deliveries/{concurrency-limiter,deliver,rate-limit}.test.ts',
  'test/settlement/{calendar,message,schedule}.test.ts',
  'test/reconciliation/{job,message}.test.ts',
  'test/overview/query.test.ts',
]

/** How much more than `npm test` some of them do. The environment overrides it. */
const COUNTS = { SEQUENCES: '10', SCHEDULES: '30', DUE_SCHEDULES: '30' }

export default defineConfig({
  test: {
    ...common('servers'),
    include: SERVER_FILES,
    exclude: SAME_ON_EVERY_SERVER,
    env: { ...COUNTS, ...process.env } as Record<string, string>,
  },
})
