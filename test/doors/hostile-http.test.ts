import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { asJson, exchange, GET_TRANSACTION, send } from '../contract/rest.ts'
import { useDatabase } from '../support/database.ts'
import { type Instance, startInstance } from '../support/instance.ts'
import { type ServiceProcess, startProcess } from '../support/process.ts'
import { useService } from '../support/service.ts'
import { useTls } from './tls-fixture.ts'

const service = useService()
const tls = useTls(false)
const db = useDatabase()

/** The service as it is, in a process of its own, with the limits that it has. */
let running: ServiceProcess
/** One with room for few. */
let small: Instance

beforeAll(async () => {
  running = await startProcess({
    DATABASE_URL: db.url,
    // What is held for clients that do not read has to fit in here, or the process ends.
    NODE_OPTIONS: '--max-old-space-size=192',
    RATE_LIMIT_FAILED: 'off',
  })
  small = await startInstance(db.url, { connectionsMax: 40, connectionsPerAddressMax: 20 })
})

afterAll(async () => {
  await running?.kill()
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

const metric = async (url: string, name: string): Promise<number> => {
  const text = (await send(url, { method: 'GET', path: '/metrics' })).text
  const line = text.split('\n').find((each) => each.startsWith(`${name} `))
  return Number(line?.split(' ')[1])
}

const HEAD = `POST ${GET_TRANSACTION} HTTP/1.1\r\nHost: x\r\n`

/** How many of the attackers ask for much in one go, and read nothing. */
const UNREAD = 50

test('500 connections that send byte by byte or read nothing: others are served, and they are cut off', async () => {
  const url = running.httpUrl
  const drips: (() => void)[] = []
  const sockets: Socket[] = []
  for (let index = 0; index < 500; index++) {
    const { socket } = open(url)
    sockets.push(socket)
    if (index < UNREAD) {
      socket.pause()
      socket.write('GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(1_000))
      continue
    }
    socket.resume()
    const body = index % 2 === 0
    const length = 'Content-Type: application/json\r\nContent-Length: 60000\r\n\r\n{'
    socket.write(body ? HEAD + length : HEAD)
    drips.push(() => socket.write(body ? 'x' : `X-${index}: y\r\n`))
  }
  const dripping = setInterval(() => {
    for (const drip of drips) drip()
  }, 1_000)
  onTestFinished(() => clearInterval(dripping))
  // Whoever reads nothing does not hear of the end: the service knows who is still there.
  const others = async () => (await metric(url, 'inflow_connections{door="http"}')) - 1
  let served = 0
  let most = 0
  for (let left = await others(); left > 0 || most < 500 - UNREAD; left = await others()) {
    most = Math.max(most, left)
    const answer = await send(url, { headers: asJson('no-key'), body: '{"session_id":"1"}' })
    expect(answer.status).toBe(401)
    served += 1
  }
  expect(served).toBeGreaterThan(100)
  expect(running.child.exitCode).toBeNull()
}, 120_000)

test.each([
  ['HTTP', () => small.httpUrl],
  ['gRPC', () => small.grpcUrl],
])('%s: one address has its share of connections, and all have theirs', async (_, url) => {
  const greedy = Array.from({ length: 60 }, () => open(url(), '127.0.0.2'))
  const closed: number[] = []
  for (const [index, each] of greedy.entries()) void each.closed.then(() => closed.push(index))
  await vi.waitFor(() => expect(closed.length).toBeGreaterThanOrEqual(40))
  expect(closed).toHaveLength(40)
  const welcome = (from: string) =>
    new Promise<boolean>((resolve) => {
      const { socket, closed: refused } = open(url(), from)
      socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n')
      // The gRPC door speaks first, and the HTTP one when it is spoken to.
      socket.once('data', () => resolve(true))
      void refused.then(() => resolve(false))
    })
  expect(await welcome('127.0.0.1')).toBe(true)
  expect(await welcome('127.0.0.2')).toBe(false)

  const others = ['127.0.0.3', '127.0.0.4'].flatMap((from) =>
    Array.from({ length: 20 }, () => open(url(), from)),
  )
  // 40 are the most: of 20, one and 40 some have gone, and nobody new comes in.
  await vi.waitFor(async () => expect(await welcome('127.0.0.5')).toBe(false))
  for (const { socket } of [...greedy, ...others]) socket.destroy()
  await vi.waitFor(async () => expect(await welcome('127.0.0.5')).toBe(true))
})

test('a TLS handshake that does not come holds nobody up, and does not stay', async () => {
  const doors = [tls.httpUrl, tls.grpcUrl]
  const slow = doors.flatMap((url) => Array.from({ length: 50 }, () => open(url)))
  for (const [index, { socket }] of slow.entries()) {
    socket.resume()
    // Some say nothing at all, some begin a record of a handshake.
    if (index % 2 === 0) socket.write(Buffer.from([22, 3, 1, 2, 0, 1]))
  }
  let over = false
  const attack = Promise.all(slow.map(({ closed }) => closed)).then(() => {
    over = true
  })
  while (!over) {
    for (const url of doors) {
      await new Promise<void>((resolve, reject) => {
        const socket = connectTls({
          host: '127.0.0.1',
          port: Number(new URL(url).port),
          ca: tls.authority.cert,
          ALPNProtocols: ['h2', 'http/1.1'],
        })
        socket.once('secureConnect', () => {
          socket.destroy()
          resolve()
        })
        socket.on('error', reject)
      })
    }
  }
  await attack
}, 60_000)

test('headers are bounded, and so is their number by it', async () => {
  const many = Array.from({ length: 2_000 }, (_, index) => `x-${index}: y\r\n`).join('')
  for (const headers of [many, `X: ${'y'.repeat(17_000)}\r\n`]) {
    expect(await exchange(service.httpUrl, `${HEAD}${headers}\r\n`)).toMatch(/^HTTP\/1.1 431 /)
  }
})
