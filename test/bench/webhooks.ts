import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { listen } from '../support/listen.ts'
import {
  HOSTILITIES,
  redirectTo,
  startBrokenTls,
  startHostile,
} from '../webhooks/sender/hostile.ts'
import type { Bench } from './bench.ts'
import { type Child, startChild } from './child.ts'
import { trackCpuUsage } from './cpu-usage.ts'
import { jobQueue } from './job-queue.ts'
import { pay, startPayments } from './payments.ts'
import {
  alternateRounds,
  type Benchmark,
  type Contender,
  percentile,
  type Row,
  withCores,
} from './rounds.ts'
import { openDatabase } from './seed.ts'
import { adminClient, openBusiness, startLocalService } from './service.ts'

/** Deliveries a round. With fewer, the queues would be measured while they wait for their next poll. */
const DELIVERIES = 10_000

/** Concurrent requests to one endpoint and to all together; the same for the yardsticks. */
const CONCURRENCY_EACH = 10
const CONCURRENCY_ALL = 100

/** Deliveries to one and to many endpoints, against job queues that do the same, and that only post. */
export const webhooks: Benchmark = async (bench) => [
  ...(await measureDeliveries(bench, 1, { atLeastTimes: 1 })),
  ...(await measureDeliveries(bench, 50, { atLeastTimes: 1.3 })),
]

async function measureDeliveries(
  bench: Bench,
  endpoints: number,
  target: Row['target'],
): Promise<readonly Row[]> {
  const receiver = await startReceiver(bench)
  const urls = Array.from({ length: endpoints }, (_, i) => `${receiver.ready}/${i}`)
  const queue = async (
    kind: 'graphile-worker' | 'pg-boss',
    logged: boolean,
  ): Promise<Contender> => {
    const concurrency = Math.min(CONCURRENCY_ALL, CONCURRENCY_EACH * endpoints)
    const databaseUrl = await bench.createDatabase()
    const options = { kind, databaseUrl, urls, concurrency, logged }
    const file = new URL('job-queue.ts', import.meta.url).pathname
    const child = await startChild(bench, file, jobQueue, options)
    return {
      name: logged ? kind : `${kind}, neither signed nor logged`,
      measure: () => measureReceived(receiver, child.pid, () => child.run(DELIVERIES)),
    }
  }
  const figures = await alternateRounds(bench, [
    await openDeliveries(bench, receiver, urls),
    await queue('graphile-worker', true),
    await queue('pg-boss', true),
    await queue('graphile-worker', false),
    await queue('pg-boss', false),
  ])
  const [ours, ...queues] = figures
  return queues.map((yardstick, at) => ({
    what: `deliveries to ${endpoints} endpoint${endpoints > 1 ? 's' : ''}, signed and logged`,
    unit: '/s',
    ours,
    yardstick,
    target: at < 2 ? target : { none: true },
  }))
}

/**
 * The deliveries are created while the endpoints are disabled, as the yardsticks queue all jobs before the first is
 * run.
 */
async function openDeliveries(
  bench: Bench,
  receiver: Receiver,
  urls: readonly string[],
): Promise<Contender> {
  const databaseUrl = await bench.createDatabase()
  const database = await openDatabase(bench, databaseUrl)
  const service = await startLocalService(bench, databaseUrl)
  const { accountNumbers, endpointIds } = await openBusiness(service, { accounts: 1, urls })
  const [accountNumber = ''] = accountNumbers
  const endpoints = adminClient(service, WebhookService)
  const enable = (enabled: boolean) =>
    Promise.all(endpointIds.map((endpointId) => endpoints.updateEndpoint({ endpointId, enabled })))
  const transactions = adminClient(service, TransactionService)
  /** Records payments, and waits until each has its deliveries. */
  const payDispatched = async (count: number): Promise<void> => {
    for (let left = count; left > 0; left -= 500) {
      const payments = Array.from({ length: Math.min(left, 500) }, () => {
        const sessionId = randomUUID().slice(6)
        return { bank: Bank.BANK_9PSB, accountNumber, sessionId, amountMinor: 100n }
      })
      await transactions.recordPayments({ payments })
    }
    const pending = "select count(*)::int from webhook_delivery where state = 'PENDING'"
    const untilMs = performance.now() + 30_000
    while ((await database.query(pending)).rows[0].count !== DELIVERIES) {
      if (performance.now() > untilMs) throw new Error('the deliveries were not created')
      await sleep(20)
    }
  }
  return {
    name: 'Inflow',
    async measure() {
      await enable(false)
      await payDispatched(DELIVERIES / urls.length)
      return measureReceived(receiver, service.pid, () => enable(true))
    },
  }
}

type Receiver = Child<string, number, number>

const startReceiver = (bench: Bench): Promise<Receiver> =>
  startChild(bench, import.meta.filename, receiver, undefined)

const measureReceived = (receiver: Receiver, pid: number, begin: () => Promise<unknown>) =>
  withCores({ process: pid }, async () => {
    const received = receiver.run(DELIVERIES)
    await begin()
    return received
  })

/** Responds to every POST with 204. Command: to wait for so many. Output: how many a second, from the first to the last. */
export async function receiver() {
  let onRequest = (): void => undefined
  const server = createServer((request, response) => {
    request.resume().on('end', () => {
      response.writeHead(204).end()
      onRequest()
    })
  })
  server.keepAliveTimeout = 60_000
  const address = `127.0.0.1:${await listen(server)}`
  const run = (requests: number) =>
    new Promise<number>((resolve) => {
      let first = 0
      let received = 0
      onRequest = () => {
        received += 1
        if (received === 1) first = performance.now()
        if (received < requests) return
        onRequest = () => undefined
        resolve(((requests - 1) / (performance.now() - first)) * 1000)
      }
    })
  return { ready: `http://${address}`, run }
}

const PER_SECOND = 300

/**
 * The time from sending a payment to its webhook's arrival at the receiver: more than from the commit, which cannot be
 * observed from outside. Measured alone, and beside further endpoints that get the same payments: healthy ones,
 * against as many hostile ones.
 */
export const webhookLatency: Benchmark = async (bench) => {
  const hostile = [
    ...(await Promise.all(Object.values(HOSTILITIES).map(startHostile))),
    await startHostile(redirectTo('http://127.0.0.1:1/')),
    await startBrokenTls(),
  ]
  for (const { close } of hostile) bench.onEnd(close)
  const healthy = await startReceiver(bench)
  const beside = (name: string, urls: readonly string[]) => openPaced(bench, name, urls)
  const healthyUrls = hostile.map((_, at) => `${healthy.ready}/${at}`)
  const hostileUrls = hostile.map(({ url }) => url)
  const [alone, besideHealthy, besideHostile] = await alternateRounds(bench, [
    await beside('alone', []),
    await beside('beside healthy ones', healthyUrls),
    await beside('beside hostile ones', hostileUrls),
  ])
  const row = { what: `sent → receiver, ${PER_SECOND}/s, p99`, unit: ' ms' }
  return [
    { ...row, ours: alone, yardstick: undefined, target: { atMost: 60 } },
    {
      what: `${row.what} beside hostile ones`,
      unit: row.unit,
      ours: besideHostile,
      yardstick: besideHealthy,
      target: { atMostTimes: 1.1 },
    },
  ]
}

/** A service with one healthy endpoint, alone or beside others. */
async function openPaced(
  bench: Bench,
  name: string,
  others: readonly string[],
): Promise<Contender> {
  const load = await startPayments(bench)
  const service = await startLocalService(bench)
  const urls = [load.ready, ...others]
  const { accountNumbers } = await openBusiness(service, { accounts: 1, urls })
  return {
    name,
    async measure(seconds) {
      const cpuUsage = trackCpuUsage({ load: load.pid, service: service.pid })
      const options = { accountNumbers, seconds, perSecond: PER_SECOND, webhooks: true }
      const times = (await pay(load, { ...service, ...options })).webhooks('sent')
      const details = { 'p50 ms': percentile(times, 0.5), ...cpuUsage() }
      return { value: percentile(times, 0.99), details }
    },
  }
}
