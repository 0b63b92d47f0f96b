import { setTimeout as wait } from 'node:timers/promises'
import { status } from '@grpc/grpc-js'
import pino from 'pino'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { Event } from '../../gen/inflow/event/v1/event_pb.ts'
import { SYSTEM } from '../../src/auth/caller.ts'
import {
  type Interruption,
  type SubscribeOptions,
  SubscriptionRefused,
  subscribe,
} from '../../src/client/subscribe.ts'
import { encodeCursor } from '../../src/events/cursor.ts'
import { bumpEpoch, readLogState } from '../../src/events/log-state.ts'
import { createRetention } from '../../src/events/retention.ts'
import { sequence, writeEvents } from '../support/events.ts'
import { startInstance } from '../support/instance.ts'
import { startProcess } from '../support/process.ts'
import { ADMIN_TOKEN, useService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { freePort, startProxy } from './proxy.ts'

const service = useService()
const address = () => `127.0.0.1:${service.service.grpcPort}`
const pool = () => service.database.pool

const BEGINNING = { case: 'beginning', value: true } as const

/** A subscription that ends with the test, and the interruptions of it. */
function open(options: Partial<SubscribeOptions>) {
  const interruptions: Interruption[] = []
  const stop = new AbortController()
  onTestFinished(() => stop.abort())
  const stream = subscribe({
    addresses: [address()],
    token: ADMIN_TOKEN,
    signal: stop.signal,
    retryMinMs: 20,
    onInterruption: (error) => interruptions.push(error),
    ...options,
  })
  return { stream, interruptions, stop }
}

async function publish(count: number): Promise<string[]> {
  const ids = await writeEvents(pool(), count)
  await sequence(pool())
  return ids
}

async function take(stream: AsyncGenerator<Event, void, void>, count: number): Promise<Event[]> {
  const events: Event[] = []
  while (events.length < count) {
    const { value, done } = await stream.next()
    if (done === true) throw new Error(`the stream ended after ${events.length} events`)
    events.push(value)
  }
  return events
}

const idsOf = (events: readonly Event[]) => events.map((event) => event.id)

/** Where the log ends now. */
async function here() {
  const { epoch, end } = await readLogState(pool())
  return { case: 'cursor', value: encodeCursor({ epoch, position: end }) } as const
}

test('goes on over a crash and restart of the instance: nothing is lost or repeated', async () => {
  const port = await freePort()
  const start = () => startProcess({ DATABASE_URL: service.url, GRPC_PORT: String(port) })
  let instance = await start()
  onTestFinished(() => instance.kill())
  const { stream, interruptions } = open({
    addresses: [`127.0.0.1:${port}`],
    start: await here(),
  })
  const before = await publish(100)
  const events = await take(stream, 50)
  await instance.kill()
  const after = await publish(100)
  const rest = take(stream, 150)
  await vi.waitFor(() => expect(interruptions.length).toBeGreaterThan(1), { timeout: 10_000 })
  instance = await start()
  events.push(...(await rest))
  expect(idsOf(events)).toEqual([...before, ...after])
})

test('hops between two instances on one database, also when they end in good order', async () => {
  const first = await startInstance(service.url)
  const second = await startInstance(service.url)
  const ways = await Promise.all(
    [first, second].map(({ grpcUrl }) => startProxy(new URL(grpcUrl).host)),
  )
  const { stream } = open({ addresses: ways.map((way) => way.address), start: await here() })
  const ids: string[] = []
  const seen: Event[] = []
  for (let hop = 0; hop < 4; hop++) {
    ids.push(...(await publish(20)))
    seen.push(...(await take(stream, 20)))
    expect(ways.map((way) => way.connections())).toEqual(hop % 2 === 0 ? [1, 0] : [0, 1])
    ways[hop % 2]!.cut()
  }
  await Promise.all([first.close(), publish(20).then((more) => ids.push(...more))])
  seen.push(...(await take(stream, 20)))
  await second.close()
  expect(idsOf(seen)).toEqual(ids)
})

test('the end of a stream in good order is no interruption when it gave something', async () => {
  const instance = await startInstance(service.url)
  const next = await startInstance(service.url)
  onTestFinished(next.close)
  const addresses = [instance, next].map(({ grpcUrl }) => new URL(grpcUrl).host)
  const { stream, interruptions } = open({ addresses, start: await here() })
  const ids = await publish(1)
  const events = await take(stream, 1)
  const last = take(stream, 1)
  await instance.close()
  ids.push(...(await publish(1)))
  events.push(...(await last))
  expect(idsOf(events)).toEqual(ids)
  expect(interruptions).toEqual([])
})

test('without a start it starts now, and keeps that now when the first attempts fail', async () => {
  const way = await startProxy(address())
  await way.block()
  await publish(3)
  // Millisecond resolution: those before belong to an earlier one.
  await wait(2)
  const { stream, interruptions } = open({ addresses: [way.address] })
  const first = take(stream, 3)
  await waitFor(() => expect(interruptions.length).toBeGreaterThan(1))
  const ids = await publish(3)
  await way.unblock()
  expect(idsOf(await first)).toEqual(ids)
})

test('waits longer from failure to failure, with jitter, up to a bound', async () => {
  const waits: number[] = []
  const { stream, stop } = open({
    addresses: [`127.0.0.1:${await freePort()}`],
    retryMinMs: 4,
    retryMaxMs: 32,
    onInterruption(error, retryMs) {
      expect(error).toMatchObject({ name: 'Interruption', reason: '' })
      expect(error.message).toMatch(/^connect ECONNREFUSED 127\.0\.0\.1:\d+$/)
      if (waits.push(retryMs) === 12) stop.abort()
    },
  })
  expect(await stream.next()).toEqual({ done: true, value: undefined })
  const shares = waits.map((ms, at) => ms / Math.min(4 * 2 ** at, 32))
  expect(shares).toHaveLength(12)
  for (const share of shares) expect(share >= 0.5 && share < 1.5).toBe(true)
  expect(new Set(shares).size).toBeGreaterThan(10)
})

test('a connection that gave something starts the waits anew', async () => {
  const way = await startProxy(address())
  const waits: number[] = []
  const { stream } = open({
    addresses: [way.address],
    start: BEGINNING,
    retryMinMs: 20,
    onInterruption: (_error, retryMs) => waits.push(retryMs),
  })
  await publish(5)
  for (let i = 0; i < 5; i++) {
    await take(stream, 1)
    way.cut()
  }
  await take(stream, 1)
  expect(Math.max(...waits)).toBeLessThan(30)
})

test('an unknown token ends it at once', async () => {
  const { stream, interruptions } = open({ token: 'nobody' })
  const refused = await stream.next().catch((error: unknown) => error)
  expect(refused).toBeInstanceOf(SubscriptionRefused)
  expect(refused).toMatchObject({ code: status.UNAUTHENTICATED, reason: 'unauthorized' })
  expect(interruptions).toEqual([])
})

test('a request that breaks a rule ends it at once', async () => {
  const { stream } = open({ kinds: ['not a kind'] })
  await expect(stream.next()).rejects.toMatchObject({
    code: status.INVALID_ARGUMENT,
    reason: 'validation_failed',
    cursor: undefined,
  })
  await expect(open({ addresses: [] }).stream.next()).rejects.toThrow('needs an address')
})

test('refused cursors carry the place where it is safe to go on', async () => {
  await publish(3)
  const old = await here()
  const running = open({ start: old })
  const [id] = await publish(1)
  expect(idsOf(await take(running.stream, 1))).toEqual([id])
  await bumpEpoch(pool(), SYSTEM)
  // One that stands is told, too.
  const stale = { code: status.FAILED_PRECONDITION, reason: 'stale_cursor' }
  await expect(running.stream.next()).rejects.toMatchObject(stale)
  const refused = await open({ start: old })
    .stream.next()
    .catch((error: unknown) => error as SubscriptionRefused)
  expect(refused).toMatchObject(stale)
  const { cursor } = refused as SubscriptionRefused
  const resumed = open({ start: { case: 'cursor', value: cursor! } })
  expect(idsOf(await take(resumed.stream, 1))).toEqual([id])

  const { epoch, end } = await readLogState(pool())
  const retention = createRetention({
    pool: pool(),
    clock: { now: () => Date.now() + 2 * 86_400_000 },
    log: pino({ level: 'silent' }),
    retentionDays: 1,
    deliveredUpTo: async () => end,
  })
  await retention.run()
  const deleted = encodeCursor({ epoch, position: 1n })
  await expect(
    open({ start: { case: 'cursor', value: deleted } }).stream.next(),
  ).rejects.toMatchObject({
    code: status.OUT_OF_RANGE,
    reason: 'expired_cursor',
    cursor: encodeCursor({ epoch, position: end }),
  })
})

test('aborting ends it promptly and without an error, and lets go of the connection', async () => {
  const way = await startProxy(address())
  const checkpoints: string[] = []
  const onCheckpoint = (cursor: string) => void checkpoints.push(cursor)
  const waiting = open({ addresses: [way.address], onCheckpoint })
  const next = waiting.stream.next()
  await waitFor(() => expect(checkpoints).toHaveLength(1))
  waiting.stop.abort()
  expect(await next).toEqual({ done: true, value: undefined })
  await waitFor(() => expect(way.connections()).toBe(0))

  // With events that arrived already.
  const start = await here()
  await publish(50)
  const busy = open({ addresses: [way.address], start })
  await take(busy.stream, 1)
  busy.stop.abort()
  expect((await busy.stream.next()).done).toBe(true)

  // While it waits for another attempt, and before it began.
  await way.block()
  const away = open({ addresses: [way.address], retryMinMs: 60_000 })
  const never = away.stream.next()
  await waitFor(() => expect(away.interruptions).toHaveLength(1))
  away.stop.abort()
  expect((await never).done).toBe(true)
  const aborted = open({ signal: AbortSignal.abort() })
  expect((await aborted.stream.next()).done).toBe(true)
})

test('leaving the loop lets go of the connection', async () => {
  const way = await startProxy(address())
  const start = await here()
  await publish(2)
  for await (const _ of open({ addresses: [way.address], start }).stream) break
  await waitFor(() => expect(way.connections()).toBe(0))
})

test('a service without its database is waited for, and holds no connection meanwhile', async () => {
  const database = new URL(service.url)
  const wire = await startProxy(database.host)
  database.host = wire.address
  const instance = await startInstance(database.href)
  onTestFinished(instance.close)
  const way = await startProxy(new URL(instance.grpcUrl).host)
  const start = await here()
  const ids = await publish(1)
  await wire.block()
  const waits: number[] = []
  const { stream } = open({
    addresses: [way.address],
    start,
    onInterruption(error, retryMs) {
      expect(error.reason).toBe('unavailable')
      waits.push(retryMs)
    },
    retryMinMs: 500,
  })
  const first = take(stream, 1)
  await waitFor(() => expect(waits).toHaveLength(1))
  await vi.waitFor(() => expect(way.connections()).toBe(0), { timeout: 200, interval: 5 })
  await wire.unblock()
  expect(idsOf(await first)).toEqual(ids)
})

test('a slow consumer gets everything in order, and holds the stream back', async () => {
  const way = await startProxy(address())
  const start = await here()
  const ids: string[] = []
  for (let i = 0; i < 5; i++) ids.push(...(await publish(4_000)))
  const { stream, interruptions } = open({ addresses: [way.address], start, silenceMs: 600 })
  const events = await take(stream, 1)
  // Neither does its slowness look like silence of the service.
  await wait(1_200)
  expect(way.bytes()).toBeLessThan(500_000)
  events.push(...(await take(stream, ids.length - 1)))
  expect(way.bytes()).toBeGreaterThan(2_000_000)
  expect(idsOf(events)).toEqual(ids)
  expect(interruptions).toEqual([])
})

test('a connection that went silent is given up, and the stream goes on at another', async () => {
  const way = await startProxy(address())
  const { stream, interruptions } = open({
    addresses: [way.address],
    start: await here(),
    silenceMs: 500,
  })
  const ids = await publish(1)
  const events = await take(stream, 1)
  way.freeze()
  ids.push(...(await publish(1)))
  events.push(...(await take(stream, 1)))
  expect(idsOf(events)).toEqual(ids)
  expect(interruptions[0]?.message).toBe('nothing was heard for 0.5 s')
})
