import { create } from '@bufbuild/protobuf'
import type { createClient } from '@connectrpc/connect'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Event } from '../../gen/inflow/event/v1/event_pb.ts'
import {
  RecordPaymentRequestSchema,
  TransactionService,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { subscribe } from '../../src/client/subscribe.ts'
import { useDatabase } from '../support/database.ts'
import { grpcClient, grpcTransport } from '../support/grpc-client.ts'
import { openAccountOver, openBusinessOver } from '../support/opened-account.ts'
import { type ServiceProcess, startProcess } from '../support/process.ts'
import { generator } from '../support/random.ts'
import { ADMIN_TOKEN } from '../support/service.ts'

const INSTANCES = 3
const EVENTS = Number(process.env['EVENTS'] ?? 6_000)
const BATCH = 250
const KILLS = 3
const HOP_EVERY = 2_000

const db = useDatabase()
const instances: ServiceProcess[] = []

const seed = Number(process.env['SEED'] ?? Date.now() % 1_000_000)
const random = generator(seed)

/** @param port of the instance that it replaces, so that subscribers find it */
const start = (port = '0') => startProcess({ DATABASE_URL: db.url, GRPC_PORT: port })

function client<S extends Parameters<typeof createClient>[0]>(
  service: S,
  instance: ServiceProcess,
) {
  return grpcClient(service, instance.grpcUrl)
}

beforeAll(async () => {
  instances.push(...(await Promise.all(Array.from({ length: INSTANCES }, () => start()))))
})

afterAll(async () => {
  await Promise.all(instances.map((instance) => instance.kill()))
})

/** Opens three accounts of each of three businesses. */
async function openAccounts(): Promise<string[]> {
  const transport = grpcTransport(instances[0]!.grpcUrl)
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

/** Repeats a batch until an instance acknowledges it; repeating is idempotent. */
async function record(payments: ReturnType<typeof create<typeof RecordPaymentRequestSchema>>[]) {
  for (let attempt = 0; ; attempt++) {
    const instance = instances[Math.floor(random() * instances.length)]!
    try {
      const { results } = await client(TransactionService, instance).recordPayments(
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
async function follow(upTo: number, first: number): Promise<Event[]> {
  const events: Event[] = []
  let cursor: string | undefined
  while (events.length < upTo) {
    const hopAt = events.length + HOP_EVERY
    const turn = first + Math.floor(events.length / HOP_EVERY)
    const addresses = instances.map((_, index) => {
      return instances[(turn + index) % instances.length]!.grpcAddress
    })
    const stop = new AbortController()
    const start =
      cursor === undefined
        ? { case: 'beginning' as const, value: true }
        : { case: 'cursor' as const, value: cursor }
    for await (const event of subscribe({
      addresses,
      token: ADMIN_TOKEN,
      start,
      signal: stop.signal,
    })) {
      events.push(event)
      cursor = event.cursor
      if (events.length >= upTo || events.length >= hopAt) break
    }
    stop.abort()
  }
  return events
}

test('every subscriber receives the whole log in order while instances are killed at random', async () => {
  console.log(`several instances: SEED=${seed}`)
  const accounts = await openAccounts()
  const total = EVENTS + accounts.length
  const subscribers = Promise.all([0, 1, 2].map((first) => follow(total, first)))
  let sent = 0
  const writer = async () => {
    while (sent < EVENTS) {
      const from = sent
      sent += BATCH
      await record(
        Array.from({ length: Math.min(BATCH, EVENTS - from) }, (_, i) =>
          create(RecordPaymentRequestSchema, {
            bank: Bank.BANK_PROVIDUS,
            accountNumber: accounts[(from + i) % accounts.length]!,
            sessionId: `S${from + i}`,
            amountMinor: 100n,
          }),
        ),
      )
    }
  }
  const writers = Promise.all(Array.from({ length: 6 }, writer))
  for (let kill = 1; kill <= KILLS; kill++) {
    while (sent < (EVENTS * kill) / (KILLS + 1)) {
      await Promise.race([writers, new Promise((resolve) => setTimeout(resolve, 5))])
    }
    const victim = Math.floor(random() * INSTANCES)
    await instances[victim]!.kill()
    instances[victim] = await start(new URL(instances[victim]!.grpcUrl).port)
  }
  await writers
  const seen = await subscribers
  const { rows } = await db.database.durablePool.query<{
    event_id: string
    business_sequence: string
  }>('select event_id, business_sequence from event_log order by position')
  expect(rows).toHaveLength(total)
  const truth = rows.map((row) => row.event_id)
  for (const events of seen) {
    expect(events.map((event) => event.id)).toEqual(truth)
    expect(events.every((event, i) => event.position === BigInt(i + 1))).toBe(true)
  }
  const facts = await db.database.durablePool.query(
    'select count(*)::int as transactions, count(distinct session_id)::int as sessions from transaction',
  )
  expect(facts.rows[0]).toEqual({ transactions: EVENTS, sessions: EVENTS })
})
