import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { connect as connectTls } from 'node:tls'
import { afterAll, beforeAll, describe, test } from 'vitest'
import { asJson, GET_TRANSACTION, send } from '../protocols/rest/rest.ts'
import { useTls } from '../protocols/tls/tls-fixture.ts'
import { useDatabase } from '../support/database.ts'
import { type ServiceProcess, startProcess } from '../support/process.ts'

const tls = useTls(false)
const db = useDatabase()

/** The service in a process of its own, with its default limits. */
let running: ServiceProcess
const attackers = new Set<Socket>()

beforeAll(async () => {
  running = await startProcess({
    DATABASE_URL: db.url,
    // Buffers for clients that do not read must fit into this heap, or the process crashes.
    NODE_OPTIONS: '--max-old-space-size=192',
    RATE_LIMIT_FAILED: 'off',
  })
})

afterAll(async () => {
  for (const socket of attackers) socket.destroy()
  await running?.kill()
})

/** An attacking connection, and when it is closed. */
function open(url: string): { socket: Socket; closed: Promise<void> } {
  const socket = connect({ port: Number(new URL(url).port), host: '127.0.0.1' })
  socket.on('error', () => undefined)
  attackers.add(socket)
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  return { socket, closed }
}

const metric = async (url: string, name: string): Promise<number> => {
  const text = (await send(url, { method: 'GET', path: '/metrics' })).text
  const line = text.split('\n').find((each) => each.startsWith(`${name} `))
  return Number(line?.split(' ')[1])
}

const HEAD = `POST ${GET_TRANSACTION} HTTP/1.1\r\nHost: x\r\n`

/** How many of the attackers request much at once and read nothing. */
const UNREAD = 50

// Each waits for time-outs of the product.
describe.concurrent('while others are served', () => {
  test('500 connections that send byte by byte or read nothing are closed', async ({ expect }) => {
    const url = running.httpUrl
    const drips: (() => void)[] = []
    let dripping = 500 - UNREAD
    for (let index = 0; index < 500; index++) {
      const { socket, closed } = open(url)
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
      void closed.then(() => (dripping -= 1))
    }
    // A client that reads nothing does not notice the close: the service's metric counts connections.
    const others = async () => (await metric(url, 'inflow_connections{server="http"}')) - 1
    let served = 0
    // The service accepts connections in their order, so it has those that read nothing once the others are closed.
    while (dripping > 0 || (await others()) > 0) {
      if (served % 5 === 0) for (const drip of drips) drip()
      const response = await send(url, { headers: asJson('no-key'), body: '{"session_id":"1"}' })
      expect(response.status).toBe(401)
      served += 1
      await pause(200)
    }
    expect(served).toBeGreaterThan(1)
    expect(running.child.exitCode).toBeNull()
  })

  test('connections without a TLS handshake are closed', async ({ expect }) => {
    const urls = [tls.httpUrl, tls.grpcUrl]
    const slow = urls.flatMap((url) => Array.from({ length: 50 }, () => open(url)))
    for (const [index, { socket }] of slow.entries()) {
      socket.resume()
      // Some send nothing, some send the start of a handshake record.
      if (index % 2 === 0) socket.write(Buffer.from([22, 3, 1, 2, 0, 1]))
    }
    const attack = Promise.all(slow.map(({ closed }) => closed)).then(() => true)
    let served = 0
    for (let over = false; !over; over = await Promise.race([attack, pause(100, false)])) {
      await Promise.all(urls.map(handshake))
      served += 1
    }
    expect(served).toBeGreaterThan(1)
  })
})

async function handshake(url: string): Promise<void> {
  const { port } = new URL(url)
  const protocols = { ca: tls.authority.cert, ALPNProtocols: ['h2', 'http/1.1'] }
  const socket = connectTls({ host: '127.0.0.1', port: Number(port), ...protocols })
  await once(socket, 'secureConnect')
  socket.destroy()
}
