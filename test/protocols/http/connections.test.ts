import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { Worker } from 'node:worker_threads'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { type Instance, startInstance } from '../../support/instance.ts'
import { useSharedService } from '../../support/service.ts'
import { waitFor } from '../../support/wait-for.ts'

const service = useSharedService()

/** One with room for few. */
let small: Instance

beforeAll(async () => {
  small = await startInstance(service.url, { connectionsMax: 40, connectionsPerAddressMax: 20 })
})

afterAll(async () => {
  await small?.close()
})

/** A connection that is attacked by, and when it is closed. */
function open(url: string, from = '127.0.0.1'): { socket: Socket; closed: Promise<void> } {
  const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1', localAddress: from })
  socket.on('error', () => undefined)
  onTestFinished(() => void socket.destroy())
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  return { socket, closed }
}

test.each([
  ['HTTP', () => small.httpUrl],
  ['gRPC', () => small.grpcUrl],
])('%s: one address has its share of connections, and all have theirs', async (_, url) => {
  const openedMs = performance.now()
  // A connection on which nothing is sent is closed after ten seconds.
  const isLate = () => performance.now() - openedMs > 9_000
  const greedy = Array.from({ length: 60 }, () => open(url(), '127.0.0.2'))
  const closed: number[] = []
  for (const [index, each] of greedy.entries()) void each.closed.then(() => closed.push(index))
  await waitFor(() => expect(closed.length).toBeGreaterThanOrEqual(40))
  if (!isLate()) expect(closed).toHaveLength(40)
  const welcome = (from: string) =>
    new Promise<boolean>((resolve) => {
      const { socket, closed: refused } = open(url(), from)
      socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n')
      // The gRPC server speaks first, and the HTTP one when it is spoken to.
      socket.once('data', () => resolve(true))
      void refused.then(() => resolve(false))
    })
  expect(await welcome('127.0.0.1')).toBe(true)
  const isWelcome = await welcome('127.0.0.2')
  if (!isLate()) expect(isWelcome).toBe(false)

  const others = ['127.0.0.3', '127.0.0.4'].flatMap((from) =>
    Array.from({ length: 20 }, () => open(url(), from)),
  )
  // The maximum is 40: of 20, 1 and 40 connections some have closed, and no new one is accepted.
  await waitFor(async () => expect(await welcome('127.0.0.5')).toBe(false))
  for (const { socket } of [...greedy, ...others]) socket.destroy()
  await waitFor(async () => expect(await welcome('127.0.0.5')).toBe(true))
})

/** Above Node's default backlog of 511. */
const BURST = 700

const CONNECT = `
const { connect } = require('node:net')
const { ports, burst, connected } = require('node:worker_threads').workerData
for (const port of ports) {
  for (let i = 0; i < burst; i++) {
    connect(port, '127.0.0.1', () => {
      Atomics.add(connected, 0, 1)
      Atomics.notify(connected, 0)
    }).on('error', () => undefined)
  }
}`

/** The longest backlog that the kernel allows; elsewhere than on Linux it is not known. */
function somaxconn(): number {
  try {
    return Number(readFileSync('/proc/sys/net/core/somaxconn', 'utf8'))
  } catch {
    return 0
  }
}

test.skipIf(somaxconn() < BURST)(
  'connections that arrive while the process is busy wait until it accepts them',
  async () => {
    const ports = [service.httpUrl, service.grpcUrl].map((url) => Number(new URL(url).port))
    const connected = new Int32Array(new SharedArrayBuffer(4))
    const workerData = { ports, burst: BURST, connected }
    const worker = new Worker(CONNECT, { eval: true, workerData })
    onTestFinished(async () => void (await worker.terminate()))
    const until = Date.now() + 120_000
    for (let count = 0; count < 2 * BURST && Date.now() < until; ) {
      Atomics.wait(connected, 0, count, 1_000)
      count = Atomics.load(connected, 0)
    }
    expect(Atomics.load(connected, 0)).toBe(2 * BURST)
  },
)
