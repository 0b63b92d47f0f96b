import { createServer } from 'node:net'
import { status } from '@grpc/grpc-js'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { Event } from '../../gen/inflow/event/v1/event_pb.ts'
import {
  type Interruption,
  type SubscribeOptions,
  SubscriptionRefused,
  subscribe,
} from '../../src/client/subscribe.ts'
import { encodeCursor } from '../../src/events/cursor.ts'
import { readLogState } from '../../src/events/log-state.ts'
import { failOver, publishEvents, runRetention } from '../support/events.ts'
import { startInstance } from '../support/instance.ts'
import { listen } from '../support/listen.ts'
import { startProxy } from '../support/proxy.ts'
import { ADMIN_TOKEN, useService } from '../support/service.ts'
import { WAIT_LIMIT_MS, waitFor, waitUntil } from '../support/wait-for.ts'

const service = useService()
const address = () => `127.0.0.1:${service.service.grpcPort}`
const pool = () => service.database.durablePool

const BEGINNING = { case: 'beginning', value: true } as const

/** Opens a subscription that ends with the test, and collects its interruptions. */
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

const publish = (count: number) => publishEvents(pool(), count)

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

/** A start at the current end of the log. */
async function endOfLog() {
  const { end } = await readLogState(pool())
  return { case: 'cursor', value: encodeCursor(end) } as const
}

test('fails over between two instances on one database, also when they shut down', async () => {
  const first = await startInstance(service.url)
  const second = await startInstance(service.url)
  const proxies = await Promise.all([first, second].map(({ grpcUrl }) => startProxy(grpcUrl)))
  const { stream } = open({
    addresses: proxies.map((proxy) => proxy.address),
    start: await endOfLog(),
  })
  const ids: string[] = []
  const seen: Event[] = []
  for (let hop = 0; hop < 4; hop++) {
    ids.push(...(await publish(20)))
    seen.push(...(await take(stream, 20)))
    expect(proxies.map((proxy) => proxy.connections())).toEqual(hop % 2 === 0 ? [1, 0] : [0, 1])
    proxies[hop % 2]!.cut()
  }
  await Promise.all([first.close(), publish(20).then((more) => ids.push(...more))])
  seen.push(...(await take(stream, 20)))
  await second.close()
  expect(idsOf(seen)).toEqual(ids)
})

test('a normal end of a stream that delivered events is not reported as an interruption', async () => {
  const instance = await startInstance(service.url)
  const next = await startInstance(service.url)
  onTestFinished(next.close)
  const addresses = [instance, next].map(({ grpcUrl }) => new URL(grpcUrl).host)
  const { stream, interruptions } = open({ addresses, start: await endOfLog() })
  const ids = await publish(1)
  const events = await take(stream, 1)
  const last = take(stream, 1)
  const beganMs = performance.now()
  await instance.close()
  const tookMs = performance.now() - beganMs
  ids.push(...(await publish(1)))
  events.push(...(await last))
  expect(idsOf(events)).toEqual(ids)
  // An instance cuts what it could not end within three seconds.
  if (tookMs < 3_000) expect(interruptions).toEqual([])
})

test('without a start, starts at the time of the call, even if the first attempts fail', async () => {
  const proxy = await startProxy(address())
  await proxy.block()
  await publish(3)
  // Timestamps have millisecond resolution: the earlier events must be of an earlier millisecond.
  const publishedMs = Date.now()
  await waitUntil(() => Date.now() > publishedMs)
  const { stream, interruptions } = open({ addresses: [proxy.address] })
  const first = take(stream, 3)
  await waitFor(() => expect(interruptions.length).toBeGreaterThan(1))
  const ids = await publish(3)
  await proxy.unblock()
  expect(idsOf(await first)).toEqual(ids)
})

test('waits longer after each failure, with jitter, up to a maximum', async () => {
  const waits: number[] = []
  const { stream, stop } = open({
    addresses: ['127.0.0.1:1'],
    retryMinMs: 4,
    retryMaxMs: 32,
    onInterruption(error, retryMs) {
      expect(error).toMatchObject({ name: 'Interruption', reason: '' })
      expect(error.message).toMatch(/^connect ECONNREFUSED 127\.0\.0\.1:1$/)
      if (waits.push(retryMs) === 12) stop.abort()
    },
  })
  expect(await stream.next()).toEqual({ done: true, value: undefined })
  const shares = waits.map((ms, at) => ms / Math.min(4 * 2 ** at, 32))
  expect(shares).toHaveLength(12)
  for (const share of shares) expect(share >= 0.5 && share < 1.5).toBe(true)
  expect(new Set(shares).size).toBeGreaterThan(10)
})

test('a connection that delivered events resets the backoff', async () => {
  const proxy = await startProxy(address())
  const waits: number[] = []
  const { stream } = open({
    addresses: [proxy.address],
    start: BEGINNING,
    retryMinMs: 20,
    onInterruption: (_error, retryMs) => waits.push(retryMs),
  })
  await publish(5)
  for (let i = 0; i < 5; i++) {
    await take(stream, 1)
    proxy.cut()
  }
  await take(stream, 1)
  expect(Math.max(...waits)).toBeLessThan(30)
})

test('an unknown token ends the subscription at once', async () => {
  const { stream, interruptions } = open({ token: 'unknown' })
  const refused = await stream.next().catch((error: unknown) => error)
  expect(refused).toBeInstanceOf(SubscriptionRefused)
  expect(refused).toMatchObject({ code: status.UNAUTHENTICATED, reason: 'unauthorized' })
  expect(interruptions).toEqual([])
})

test('an invalid request ends the subscription at once', async () => {
  const { stream } = open({ kinds: ['not a kind'] })
  await expect(stream.next()).rejects.toMatchObject({
    code: status.INVALID_ARGUMENT,
    reason: 'validation_failed',
    cursor: undefined,
  })
  await expect(open({ addresses: [] }).stream.next()).rejects.toThrow('needs an address')
})

test('an instance may be named by its URL', async () => {
  const [id] = await publish(1)
  const { stream } = open({ addresses: [`http://${address()}`], start: BEGINNING })
  const ids: string[] = []
  while (!ids.includes(id!)) ids.push((await stream.next()).value!.id)
  for (const [given, why] of [
    [{ addresses: ['http://127.0.0.1:50051/v2'] }, 'must be host:port, or a URL without a path'],
    [{ addresses: ['https://'] }, 'must be host:port, or a URL without a path'],
    [{ addresses: ['http://127.0.0.1:50051'], tls: {} }, 'is without TLS: use https'],
  ] as const) {
    await expect(open(given).stream.next()).rejects.toThrow(why)
  }
})

test('a process that does not handle interruptions is warned of the third in a row, once', async () => {
  const warnings: string[] = []
  const attempts = Promise.withResolvers<void>()
  const emit = vi.spyOn(process, 'emitWarning').mockImplementation((text) => {
    warnings.push(String(text))
  })
  onTestFinished(() => emit.mockRestore())
  let connections = 0
  const server = createServer((socket) => {
    connections += 1
    socket.destroy()
    if (connections === 6) attempts.resolve()
  })
  onTestFinished(() => void server.close())
  const port = await listen(server)
  const stop = new AbortController()
  const stream = subscribe({
    addresses: [`127.0.0.1:${port}`],
    token: ADMIN_TOKEN,
    signal: stop.signal,
    retryMinMs: 5,
    retryMaxMs: 10,
  })
  const next = stream.next()
  await attempts.promise
  stop.abort()
  await next
  expect(warnings).toEqual([
    expect.stringMatching(/^subscribe gets no events, and goes on trying: ./),
  ])
})

test('a refused cursor comes with a cursor from which it is safe to resume', async () => {
  await publish(3)
  const running = open({ start: await endOfLog() })
  const [lost] = await publish(1)
  expect(idsOf(await take(running.stream, 1))).toEqual([lost])
  const old = await endOfLog()
  // As after a failover to a standby that lacked the event.
  await failOver(pool(), [lost!])
  const [id] = await publish(1)
  // A running stream ends with the error, too.
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
  await runRetention(pool(), end.position)
  const deleted = encodeCursor({ epoch, position: 1n, tag: '' })
  await expect(
    open({ start: { case: 'cursor', value: deleted } }).stream.next(),
  ).rejects.toMatchObject({
    code: status.OUT_OF_RANGE,
    reason: 'expired_cursor',
    cursor: encodeCursor({ ...end, tag: '' }),
  })
})

test('aborting ends the subscription promptly, without an error, and closes the connection', async () => {
  const proxy = await startProxy(address())
  const checkpoints: string[] = []
  const onCheckpoint = (cursor: string) => void checkpoints.push(cursor)
  const waiting = open({ addresses: [proxy.address], onCheckpoint })
  const next = waiting.stream.next()
  await waitFor(() => expect(checkpoints).toHaveLength(1))
  waiting.stop.abort()
  expect(await next).toEqual({ done: true, value: undefined })
  await waitFor(() => expect(proxy.connections()).toBe(0))

  // Also with events that have already arrived.
  const start = await endOfLog()
  await publish(50)
  const busy = open({ addresses: [proxy.address], start })
  await take(busy.stream, 1)
  busy.stop.abort()
  expect((await busy.stream.next()).done).toBe(true)

  // Also while it waits for the next attempt, and before it starts.
  await proxy.block()
  const waitingToRetry = open({ addresses: [proxy.address], retryMinMs: 60_000 })
  const never = waitingToRetry.stream.next()
  await waitFor(() => expect(waitingToRetry.interruptions).toHaveLength(1))
  waitingToRetry.stop.abort()
  expect((await never).done).toBe(true)
  const aborted = open({ signal: AbortSignal.abort() })
  expect((await aborted.stream.next()).done).toBe(true)
})

test('leaving the loop closes the connection', async () => {
  const proxy = await startProxy(address())
  const start = await endOfLog()
  await publish(2)
  for await (const _ of open({ addresses: [proxy.address], start }).stream) break
  await waitFor(() => expect(proxy.connections()).toBe(0))
})

test('waits for a service without a database, and holds no connection meanwhile', async () => {
  const wire = await startProxy(service.url)
  const instance = await startInstance(wire.through)
  onTestFinished(instance.close)
  const proxy = await startProxy(instance.grpcUrl)
  const start = await endOfLog()
  const ids = await publish(1)
  await wire.block()
  const waits: number[] = []
  const { stream } = open({
    addresses: [proxy.address],
    start,
    onInterruption(error, retryMs) {
      expect(error.reason).toBe('unavailable')
      waits.push(retryMs)
    },
    retryMinMs: 3_000,
  })
  const first = take(stream, 1)
  await waitFor(() => expect(waits).toHaveLength(1))
  // Before it retries.
  await vi.waitFor(() => expect(proxy.connections()).toBe(0), {
    timeout: WAIT_LIMIT_MS,
    interval: 5,
  })
  await wire.unblock()
  expect(idsOf(await first)).toEqual(ids)
})

test('a slow consumer receives all events in order, and slows the stream down', async () => {
  const proxy = await startProxy(address())
  const start = await endOfLog()
  const ids: string[] = []
  for (let i = 0; i < 3; i++) ids.push(...(await publish(4_000)))
  const { stream, interruptions } = open({ addresses: [proxy.address], start, silenceMs: 2_500 })
  const events = await take(stream, 1)
  // A busy machine may have taken more than one attempt for the first event.
  interruptions.length = 0
  // A slow consumer is not mistaken for a silent service: meanwhile a stream of a silent one is given
  // up twice.
  const silent = await startProxy(address())
  silent.silence()
  const other = open({ addresses: [silent.address], silenceMs: 2_500 })
  void other.stream.next()
  await waitFor(() => expect(other.interruptions.length).toBeGreaterThan(1))
  expect(proxy.bytes()).toBeLessThan(500_000)
  expect(interruptions).toEqual([])
  events.push(...(await take(stream, ids.length - 1)))
  expect(proxy.bytes()).toBeGreaterThan(1_200_000)
  expect(idsOf(events)).toEqual(ids)
})

test('gives up a silent connection and resumes on another', async () => {
  const proxy = await startProxy(address())
  const { stream, interruptions } = open({
    addresses: [proxy.address],
    start: await endOfLog(),
    silenceMs: 500,
  })
  const ids = await publish(1)
  const events = await take(stream, 1)
  proxy.freeze()
  ids.push(...(await publish(1)))
  events.push(...(await take(stream, 1)))
  expect(idsOf(events)).toEqual(ids)
  expect(interruptions[0]?.message).toBe('nothing was received for 0.5 s')
})
