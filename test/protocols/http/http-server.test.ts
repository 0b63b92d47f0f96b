import { connect } from 'node:net'
import { create } from '@bufbuild/protobuf'
import pino from 'pino'
import { Registry } from 'prom-client'
import { expect, onTestFinished, test } from 'vitest'
import {
  ListEventsResponseSchema,
  ThirdPartyService,
} from '../../../gen/inflow/thirdparty/v2/third_party_service_pb.ts'
import { createRequestIds } from '../../../src/core/ids.ts'
import { openHttpServer } from '../../../src/server/http/http-server.ts'
import { createInvokers } from '../../../src/server/rpc/invokers.ts'
import { useDatabase } from '../../support/database.ts'
import { startProcess } from '../../support/process.ts'
import { send, until } from '../rest/rest.ts'

const db = useDatabase(2)

test('an error outside of a call is logged with the request id that its caller got', async () => {
  const logged: Record<string, unknown>[] = []
  const log = pino({ level: 'info' }, { write: (line: string) => logged.push(JSON.parse(line)) })
  const boom = async () => {
    throw new Error('a defect')
  }
  // An answer whose list is none cannot be written.
  const unwritable = Object.assign(create(ListEventsResponseSchema), { data: { events: 1 } })
  const methods = { getTransaction: boom, listEvents: async () => unwritable }
  const server = await openHttpServer({
    invokers: createInvokers([{ service: ThirdPartyService, methods }], {
      beforeDecoding: [],
      afterDecoding: [],
    }),
    notifications: { bankOf: () => 'BANK', allows: () => true, receive: boom },
    host: '127.0.0.1',
    port: 0,
    trustedProxies: [],
    requestIds: createRequestIds(),
    operations: { metrics: new Registry(), ready: async () => [], notes: () => [] },
    log,
    limits: { connectionsMax: 10, connectionsPerAddressMax: 10 },
    corsOrigins: [],
    console: undefined,
  })
  onTestFinished(() => server.close(0).then(() => undefined))
  for (const [path, url] of [
    ['/v2/thirdparty/getTransaction/', '/v2/thirdparty/getTransaction'],
    ['/v2/thirdparty/listEvents/', '/v2/thirdparty/listEvents'],
    ['/banks/any/notifications', '/banks/:bank/notifications'],
  ]) {
    const { status, text } = await send(`http://127.0.0.1:${server.port}`, {
      path: path!,
      headers: { 'content-type': 'application/json' },
      body: '{}',
    })
    expect([path, status]).toEqual([path, 500])
    const { code, request_id: id } = JSON.parse(text)
    expect(code).toBe('internal')
    expect(logged).toContainEqual(
      expect.objectContaining({ level: 50, request_id: id, path: url, reason: 'internal' }),
    )
  }
  // What is the caller's fault is no line of its own.
  await send(`http://127.0.0.1:${server.port}`, {
    path: '/v2/thirdparty/listEvents/',
    body: 'x'.repeat(70_000),
  })
  expect(logged).toHaveLength(3)
})

test('a shutdown completes although requests do not', async () => {
  const service = await startProcess({ DATABASE_URL: db.url })
  const { hostname, port } = new URL(service.httpUrl)
  const sockets = ['', 'POST /v2/thirdparty/listEvents/ HTTP/1.1\r\nHost: x\r\nContent-Le'].map(
    (text) => {
      const socket = connect(Number(port), hostname)
      socket.on('error', () => undefined)
      if (text !== '') socket.write(text)
      return socket
    },
  )
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
  })
  const open = async () => {
    const answer = await fetch(`${service.httpUrl}/metrics`, { headers: { connection: 'close' } })
    return Number(/^inflow_connections\{server="http"\} (\d+)$/m.exec(await answer.text())?.[1])
  }
  await until(open, (count) => count === 3)
  const holders = async () => {
    const { rows } = await db.database.durablePool.query('select id from master_key_holder')
    return rows.length
  }
  expect(await holders()).toBe(1)
  expect(await service.stop()).toBe(0)
  // The last that it does is to say that it is gone.
  expect(await holders()).toBe(0)
})
