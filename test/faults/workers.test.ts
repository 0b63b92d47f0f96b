import { create } from '@bufbuild/protobuf'
import { createClient, type Transport } from '@connectrpc/connect'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import {
  RecordPaymentRequestSchema,
  TransactionService,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { subscribe } from '../../src/client/subscribe.ts'
import { asJson, send } from '../protocols/rest/rest.ts'
import { useDatabase } from '../support/database.ts'
import { grpcTransport } from '../support/grpc-client.ts'
import { openBusinessOver } from '../support/opened-account.ts'
import { type ServiceProcess, startProcess } from '../support/process.ts'
import { generator } from '../support/random.ts'
import { ADMIN_TOKEN } from '../support/service.ts'
import { WAIT_LIMIT_MS } from '../support/wait-for.ts'
import { isAlive, killWorker, workersOf } from '../support/workers.ts'

const WORKERS = 3
const KILLS = Number(process.env['KILLS'] ?? 2)
const SENDERS = 2
const BATCH = 20

/** The time limit of one call, so that none waits for ever for a killed worker. */
const CALL_MS = 10_000
const CALLS_MAX = 200

const seed = Number(process.env['SEED'] ?? Date.now() % 1_000_000)
const random = generator(seed)

const db = useDatabase()
let service: ServiceProcess
let accountNumber: string
let key: string

const connect = (): Transport => grpcTransport(service.grpcUrl)

beforeAll(async () => {
  service = await startProcess(
    { DATABASE_URL: db.url, WORKERS: `${WORKERS}`, LOG_LEVEL: 'info' },
    true,
  )
  ;({ accountNumber, secretKey: key } = await openBusinessOver(connect()))
})

afterAll(() => service?.kill())

/** Repeats a call until it succeeds; repeating is idempotent. */
async function insist<T>(call: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await call()
    } catch (error) {
      if (attempt === CALLS_MAX) throw error
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
}

/** Records batches until stopped. @returns the acknowledged sessions */
async function feed(sender: number, stopped: () => boolean): Promise<string[]> {
  const transactions = createClient(TransactionService, connect())
  const acknowledged: string[] = []
  for (let batch = 0; !stopped(); batch++) {
    const sessions = Array.from({ length: BATCH }, (_, i) => `S${sender}-${batch}-${i}`)
    const payments = sessions.map((sessionId) =>
      create(RecordPaymentRequestSchema, {
        bank: Bank.BANK_PROVIDUS,
        accountNumber,
        sessionId,
        amountMinor: 100n,
      }),
    )
    const { results } = await insist(() =>
      transactions.recordPayments({ payments }, { timeoutMs: CALL_MS }),
    )
    expect(results.every(({ error }) => error === '')).toBe(true)
    acknowledged.push(...sessions)
  }
  return acknowledged
}

/** Reads the log, across workers that die, until the last event. */
async function follow(enough: () => number, stop: AbortController): Promise<string[]> {
  const ids: string[] = []
  for await (const event of subscribe({
    addresses: [service.grpcAddress],
    token: ADMIN_TOKEN,
    start: { case: 'beginning', value: true },
    signal: stop.signal,
  })) {
    ids.push(event.id)
    if (ids.length >= enough()) break
  }
  return ids
}

test('loses nothing and keeps serving while workers are killed under load', async () => {
  console.log(`workers: SEED=${seed}`)
  let stopped = false
  let total = Number.POSITIVE_INFINITY
  const stop = new AbortController()
  const followers = Promise.all([1, 2, 3].map(() => follow(() => total, stop)))
  const senders = Promise.all(
    Array.from({ length: SENDERS }, (_, sender) => feed(sender, () => stopped)),
  )
  const replaced = new Map<number, number>()
  for (let kill = 0; kill < KILLS; kill++) {
    const victim = 1 + Math.floor(random() * WORKERS)
    const pid = workersOf(service).get(victim)!
    await killWorker(service, victim)
    replaced.set(pid, victim)
    // The others respond on the same port.
    const response = await insist(() =>
      send(service.httpUrl, { headers: asJson(key), body: '{"session_id":"none"}' }),
    )
    expect(response.status).toBe(404)
  }
  stopped = true
  const acknowledged = (await senders).flat()
  total = 1 + acknowledged.length

  // The workers that are left sequence all events.
  await vi.waitFor(
    async () => {
      const { rows } = await db.database.durablePool.query(
        'select count(*)::int as events from event_log',
      )
      expect(rows[0].events).toBe(total)
    },
    { timeout: WAIT_LIMIT_MS },
  )
  const { rows: facts } = await db.database.durablePool.query<{ session_id: string }>(
    'select session_id from transaction order by session_id',
  )
  expect(facts.map((row) => row.session_id)).toEqual(acknowledged.toSorted())
  const { rows: log } = await db.database.durablePool.query<{ event_id: string }>(
    'select event_id from event_log order by position',
  )
  // A subscriber that had read everything before the total was known waits for one more event.
  await createClient(BusinessService, connect()).createBusiness({ name: 'End' })
  const ended = setTimeout(() => stop.abort(), 30_000)
  for (const ids of await followers) {
    expect(ids.slice(0, total)).toEqual(log.map((row) => row.event_id))
  }
  clearTimeout(ended)

  expect([...replaced.keys()].filter(isAlive)).toEqual([])
  expect([...workersOf(service).values()].filter(isAlive)).toHaveLength(WORKERS)
  const pids = [...workersOf(service).values()]
  expect(await service.stop()).toBe(0)
  expect(pids.filter(isAlive)).toEqual([])
})
