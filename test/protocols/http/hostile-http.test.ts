import { connect, type Socket } from 'node:net'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { useDatabase } from '../../support/database.ts'
import { type Instance, startInstance } from '../../support/instance.ts'
import { useService } from '../../support/service.ts'
import { waitFor } from '../../support/wait-for.ts'
import { exchange, GET_TRANSACTION } from '../rest/rest.ts'

const service = useService()
const db = useDatabase()

/** One with room for few. */
let small: Instance

beforeAll(async () => {
  small = await startInstance(db.url, { connectionsMax: 40, connectionsPerAddressMax: 20 })
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

const HEAD = `POST ${GET_TRANSACTION} HTTP/1.1\r\nHost: x\r\n`

test.each([
  ['HTTP', () => small.httpUrl],
  ['gRPC', () => small.grpcUrl],
])('%s: one address has its share of connections, and all have theirs', async (_, url) => {
  const greedy = Array.from({ length: 60 }, () => open(url(), '127.0.0.2'))
  const closed: number[] = []
  for (const [index, each] of greedy.entries()) void each.closed.then(() => closed.push(index))
  await waitFor(() => expect(closed.length).toBeGreaterThanOrEqual(40))
  expect(closed).toHaveLength(40)
  const welcome = (from: string) =>
    new Promise<boolean>((resolve) => {
      const { socket, closed: refused } = open(url(), from)
      socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n')
      // The gRPC server speaks first, and the HTTP one when it is spoken to.
      socket.once('data', () => resolve(true))
      void refused.then(() => resolve(false))
    })
  expect(await welcome('127.0.0.1')).toBe(true)
  expect(await welcome('127.0.0.2')).toBe(false)

  const others = ['127.0.0.3', '127.0.0.4'].flatMap((from) =>
    Array.from({ length: 20 }, () => open(url(), from)),
  )
  // The maximum is 40: of 20, 1 and 40 connections some have closed, and no new one is accepted.
  await waitFor(async () => expect(await welcome('127.0.0.5')).toBe(false))
  for (const { socket } of [...greedy, ...others]) socket.destroy()
  await waitFor(async () => expect(await welcome('127.0.0.5')).toBe(true))
})

test('headers are bounded in bytes, and so in number', async () => {
  const many = Array.from({ length: 2_000 }, (_, index) => `x-${index}: y\r\n`).join('')
  for (const headers of [many, `X: ${'y'.repeat(17_000)}\r\n`]) {
    expect(await exchange(service.httpUrl, `${HEAD}${headers}\r\n`)).toMatch(/^HTTP\/1.1 431 /)
  }
})
