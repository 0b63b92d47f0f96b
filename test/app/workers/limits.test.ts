import { afterAll, beforeAll, expect, test } from 'vitest'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { URGENT_MS } from '../../../src/auth/rate-limits/exchange.ts'
import { EXCHANGE_MS } from '../../../src/auth/rate-limits/shared-bucket.ts'
import { asJson, GET_TRANSACTION } from '../../protocols/rest/rest.ts'
import { useDatabase } from '../../support/database.ts'
import { grpcClient } from '../../support/grpc-client.ts'
import { type ServiceProcess, startProcess } from '../../support/process.ts'

const WORKERS = 3
/** Refills so slowly that a busy machine gains few tokens during a test. */
const LIMIT = { perSecond: 10, burst: 600 }
const CALLS = 3_000
const AT_ONCE = 12

const db = useDatabase(2)
let service: ServiceProcess
let key: string

beforeAll(async () => {
  const limit = `${LIMIT.perSecond}/${LIMIT.burst}`
  service = await startProcess({
    DATABASE_URL: db.url,
    WORKERS: `${WORKERS}`,
    RATE_LIMIT_KEY: limit,
    RATE_LIMIT_FAILED: limit,
  })
  const businesses = grpcClient(BusinessService, service.grpcUrl)
  key = (await businesses.createBusiness({ name: 'Acme' })).secretKey
}, 120_000)

afterAll(() => service?.kill())

/** Calls in a loop over several connections, so that all workers get calls. */
async function callOften(key: string) {
  const startedMs = performance.now()
  const statuses: number[] = []
  const calls = Array(CALLS).values()
  const caller = async () => {
    for (const _call of calls) {
      const init = { method: 'POST', headers: asJson(key), body: '{"session_id":"1"}' }
      const answer = await fetch(service.httpUrl + GET_TRANSACTION, init)
      statuses.push(answer.status)
      await answer.arrayBuffer()
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, caller))
  return { statuses, seconds: (performance.now() - startedMs) / 1_000 }
}

/**
 * The calls that one process admits, plus those that each other worker may admit before its first
 * exchange: a quarter of the burst, and the calls until then; see `auth/rate-limits/exchange.ts`.
 */
function admittedMax({ statuses, seconds }: Awaited<ReturnType<typeof callOften>>): number {
  const perWorkerAndSecond = statuses.length / seconds / WORKERS
  // An exchange takes its time on a busy machine.
  const exchangeSeconds = (URGENT_MS + EXCHANGE_MS) / 1_000
  const unshared = LIMIT.burst / 4 + perWorkerAndSecond * exchangeSeconds
  return LIMIT.burst + LIMIT.perSecond * (seconds + 1) + (WORKERS - 1) * unshared
}

test('all workers together admit a key’s limit, plus the bounded excess before an exchange', async () => {
  const called = await callOften(key)
  const admitted = called.statuses.filter((status) => status === 404).length
  expect(new Set(called.statuses)).toEqual(new Set([404, 429]))
  expect(admitted).toBeGreaterThanOrEqual(LIMIT.burst)
  expect(admitted).toBeLessThanOrEqual(admittedMax(called))
  // Far below three separate limits.
  expect(admitted).toBeLessThan(WORKERS * LIMIT.burst)
}, 120_000)

test('all workers together limit the calls with invalid keys', async () => {
  const called = await callOften(`sk_live_${'0'.repeat(26)}_${'A'.repeat(43)}`)
  const failed = called.statuses.filter((status) => status === 401).length
  expect(new Set(called.statuses)).toEqual(new Set([401, 429]))
  expect(failed).toBeGreaterThanOrEqual(LIMIT.burst)
  expect(failed).toBeLessThanOrEqual(admittedMax(called))
  expect(failed).toBeLessThan(WORKERS * LIMIT.burst)
}, 120_000)
