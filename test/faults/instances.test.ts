import { create } from '@bufbuild/protobuf'
import { expect, onTestFinished, test } from 'vitest'
import type { Event } from '../../gen/inflow/event/v1/event_pb.ts'
import {
  RecordPaymentRequestSchema,
  TransactionService,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { subscribe } from '../../src/client/subscribe.ts'
import { createTestDatabase, query } from '../support/database.ts'
import { grpcTransport } from '../support/grpc-client.ts'
import { openAccountOver, openBusinessOver } from '../support/opened-account.ts'
import { type ServiceProcess, startProcess } from '../support/process.ts'
import { generator, SEED } from '../support/random.ts'
import { ADMIN_TOKEN } from '../support/service.ts'
import { killWorker, workersOf } from '../support/workers.ts'
import { client, idsOf } from './scene.ts'

const COUNT = 3
const EVENTS = Number(process.env['EVENTS'] ?? 6_000)
const BATCH = 250
const KILLS = 3
const HOP_EVERY = 2_000

const random = generator(SEED)
const pick = () => Math.floor(random() * COUNT)

/** What serves the callers, and how one part of it is killed and replaced. */
interface Servers {
  readonly services: readonly ServiceProcess[]
  kill(victim: number): Promise<void>
}

const SERVERS: Readonly<Record<string, (url: string) => Promise<Servers>>> = {
  async instances(url) {
    // On the port of the one that it replaces, so that subscribers find it.
    const start = (port = '0') => startProcess({ DATABASE_URL: url, GRPC_PORT: port })
    const services = await Promise.all(Array.from({ length: COUNT }, () => start()))
    onTestFinished(async () => void (await Promise.all(services.map((each) => each.kill()))))
    const kill = async (victim: number) => {
      await services[victim]!.kill()
      services[victim] = await start(new URL(services[victim]!.grpcUrl).port)
    }
    return { services, kill }
  },
  async workers(url) {
    const settings = { DATABASE_URL: url, WORKERS: `${COUNT}`, LOG_LEVEL: 'info' }
    const service = await startProcess(settings, true)
    onTestFinished(() => service.kill())
    await expect.poll(() => workersOf(service).size).toBe(COUNT)
    return { services: [service], kill: (victim) => killWorker(service, victim + 1) }
  },
}

/** Opens three accounts of each of three businesses. */
async function openAccounts({ grpcUrl }: ServiceProcess): Promise<string[]> {
  const transport = grpcTransport(grpcUrl)
  const numbers: string[] = []
  for (let b = 0; b < 3; b++) {
    const { businessId, accountNumber } = await openBusinessOver(transport)
    numbers.push(accountNumber)
    for (const reference of ['order-2', 'order-3']) {
      numbers.push((await openAccountOver(transport, { businessId, reference })).accountNumber)
    }
  }
  return numbers
}

/** Records a batch, repeated until it is acknowledged; repeating is idempotent. */
async function record({ services }: Servers, accounts: readonly string[], from: number) {
  const payments = Array.from({ length: Math.min(BATCH, EVENTS - from) }, (_, i) =>
    create(RecordPaymentRequestSchema, {
      bank: Bank.BANK_PROVIDUS,
      accountNumber: accounts[(from + i) % accounts.length]!,
      sessionId: `S${from + i}`,
      amountMinor: 100n,
    }),
  )
  for (let attempt = 0; ; attempt++) {
    const service = services[pick() % services.length]!
    try {
      const { results } = await client(TransactionService, service).recordPayments(
        { payments },
        { timeoutMs: 30_000 },
      )
      expect(results.every((result) => result.error === '')).toBe(true)
      return
    } catch (error) {
      if (attempt > 200) throw error
    }
  }
}

/** Reads the whole log, and sometimes resumes by cursor at another instance. */
async function follow({ services }: Servers, upTo: number, first: number): Promise<Event[]> {
  const events: Event[] = []
  let cursor: string | undefined
  while (events.length < upTo) {
    const hopAt = events.length + HOP_EVERY
    const turn = first + Math.floor(events.length / HOP_EVERY)
    const addresses = services.map((_, index) => {
      return services[(turn + index) % services.length]!.grpcAddress
    })
    const stop = new AbortController()
    const start =
      cursor === undefined
        ? { case: 'beginning' as const, value: true }
        : { case: 'cursor' as const, value: cursor }
    const options = { addresses, token: ADMIN_TOKEN, start, signal: stop.signal }
    for await (const event of subscribe(options)) {
      events.push(event)
      cursor = event.cursor
      if (events.length >= upTo || events.length >= hopAt) break
    }
    stop.abort()
  }
  return events
}

test.each(Object.keys(SERVERS))(
  'every subscriber receives the whole log in order while %s are killed at random',
  async (kind) => {
    const made = await createTestDatabase()
    onTestFinished(made.drop)
    const servers = await SERVERS[kind]!(made.url)
    const accounts = await openAccounts(servers.services[0]!)
    const total = EVENTS + accounts.length
    const subscribers = Promise.all([0, 1, 2].map((first) => follow(servers, total, first)))
    let sent = 0
    const writer = async () => {
      while (sent < EVENTS) {
        const from = sent
        sent += BATCH
        await record(servers, accounts, from)
      }
    }
    const writers = Promise.all(Array.from({ length: 6 }, writer))
    for (let kill = 1; kill <= KILLS; kill++) {
      while (sent < (EVENTS * kill) / (KILLS + 1)) {
        await Promise.race([writers, new Promise((resolve) => setTimeout(resolve, 5))])
      }
      await servers.kill(pick())
    }
    await writers
    const seen = await subscribers
    const log = await query<{ id: string }>(
      made.url,
      'select event_id as id from event_log order by position',
    )
    expect(log).toHaveLength(total)
    for (const events of seen) {
      expect(idsOf(events)).toEqual(log.map(({ id }) => id))
      expect(events.every((event, i) => event.position === BigInt(i + 1))).toBe(true)
    }
    const facts = await query(
      made.url,
      'select count(*)::int as transactions, count(distinct session_id)::int as sessions from transaction',
    )
    expect(facts).toEqual([{ transactions: EVENTS, sessions: EVENTS }])
  },
)
