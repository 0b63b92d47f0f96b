import { gzipSync } from 'node:zlib'
import { create, toBinary } from '@bufbuild/protobuf'
import { Code, ConnectError, createClient } from '@connectrpc/connect'
import { createGrpcTransport } from '@connectrpc/connect-node'
import { compressionAlgorithms, status } from '@grpc/grpc-js'
import { describe, expect, test } from 'vitest'
import {
  GetTransactionRequestSchema,
  RecordPaymentRequestSchema,
  TransactionService,
} from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import {
  answerOf,
  beginCall,
  callUnary,
  openClient,
  openSession,
  openTestServer,
} from './fixture.ts'
import { framed } from './http2-frames.ts'

const { getTransaction, recordPayments } = TransactionService.method
const LOOK_UP = { sessionId: 's-1', businessId: 'biz_1' }
const PATH = `/${TransactionService.typeName}/GetTransaction`

const message = Buffer.from(
  toBinary(GetTransactionRequestSchema, create(GetTransactionRequestSchema, LOOK_UP)),
)

const openEcho = (delay: Promise<unknown> = Promise.resolve()) =>
  openTestServer({
    transactions: {
      async getTransaction({ sessionId }) {
        await delay
        return { transaction: { sessionId } }
      },
      recordPayments: ({ payments }) => ({ results: payments.map(() => ({ outcome: 1 })) }),
    },
  })

const ask = (address: string, body?: Buffer, { ':path': path = PATH, ...more } = {} as Headers) =>
  answerOf(beginCall(openSession(address), path, more), body)
type Headers = Readonly<Record<string, string>>

describe('compressed requests', () => {
  test.each(['gzip', 'deflate'] as const)('with %s are read, from grpc-js', async (name) => {
    const { address } = await openEcho()
    const client = openClient(address, {
      'grpc.default_compression_algorithm': compressionAlgorithms[name],
    })
    const { message: found } = await callUnary(client, getTransaction, LOOK_UP)
    expect(found?.transaction?.sessionId).toBe('s-1')
    const payment = { accountNumber: '0123456789', sessionId: 'x', narration: 'n'.repeat(500) }
    const payments = Array.from({ length: 1000 }, () => create(RecordPaymentRequestSchema, payment))
    const { message: recorded } = await callUnary(client, recordPayments, { payments })
    expect(recorded?.results).toHaveLength(1000)
  })

  const compressed = (bytes: Buffer) => {
    const body = framed(bytes)
    body[0] = 1
    return body
  }

  test('that expand to more than 4 MiB, or are not compressed as stated, are refused', async () => {
    const { address } = await openEcho()
    const bomb = compressed(gzipSync(Buffer.alloc(4 * 1024 * 1024 + 1)))
    const named = { 'grpc-encoding': 'gzip' }
    expect(await ask(address, bomb, named)).toMatchObject({
      'grpc-status': `${status.RESOURCE_EXHAUSTED}`,
    })
    const broken = compressed(Buffer.from('no gzip'))
    expect(await ask(address, broken, named)).toMatchObject({
      'grpc-status': `${status.INTERNAL}`,
    })
  })

  test('in another encoding are UNIMPLEMENTED', async () => {
    const { address } = await openEcho()
    expect(await ask(address, compressed(message), { 'grpc-encoding': 'br' })).toMatchObject({
      'grpc-status': `${status.UNIMPLEMENTED}`,
    })
  })
})

describe('what is not one message', () => {
  test.each([
    ['none', Buffer.alloc(0)],
    ['none, by the headers alone', undefined],
    ['a part of one', framed(message).subarray(0, -1)],
    ['two', Buffer.concat([framed(message), framed(message)])],
  ])('%s is UNIMPLEMENTED', async (_, body) => {
    const { address } = await openEcho()
    expect(await ask(address, body)).toMatchObject({ 'grpc-status': `${status.UNIMPLEMENTED}` })
  })

  test('a length above 4 MiB is refused at once', async () => {
    const { address } = await openEcho()
    const head = Buffer.from('0000400001', 'hex')
    expect(await ask(address, head)).toMatchObject({
      'grpc-status': `${status.RESOURCE_EXHAUSTED}`,
      reset: 0,
    })
  })
})

test.each([
  [{ 'content-type': 'application/json' }, { ':status': 415 }],
  [{ 'content-type': 'application/grpc+proto' }, { 'grpc-status': '0' }],
  [{ 'content-type': 'application/grpc; x=1' }, { 'grpc-status': '0' }],
  [{ 'grpc-timeout': 'x' }, { 'grpc-status': `${status.INTERNAL}` }],
  [{ 'grpc-timeout': '0n' }, { 'grpc-status': /^(0|4)$/ }],
  [{ 'grpc-timeout': '99999999H' }, { 'grpc-status': '0' }],
])('%o is answered with %o', async (headers, expected) => {
  const { address } = await openEcho()
  const answer = await ask(address, framed(message), headers as Record<string, string>)
  for (const [name, value] of Object.entries(expected)) {
    if (value instanceof RegExp) expect(answer[name]).toMatch(value)
    else expect(answer[name]).toBe(value)
  }
})

describe('deadlines', () => {
  test('are enforced for calls in progress, not for finished ones', async () => {
    const never = new Promise<never>(() => undefined)
    const waiting = await openEcho(never)
    const answers = await Promise.all(
      ['1n', '30m', '1S'].map((timeout) =>
        ask(waiting.address, framed(message), { 'grpc-timeout': timeout }),
      ),
    )
    const codes = answers.map((answer) => answer['grpc-status'])
    expect(codes).toEqual(['4', '4', '4'])
  })

  test('reach clients of connect-node as DEADLINE_EXCEEDED', async () => {
    const { address } = await openEcho(new Promise<never>(() => undefined))
    const transport = createGrpcTransport({ baseUrl: `http://${address}` })
    const call = createClient(TransactionService, transport).getTransaction(LOOK_UP, {
      timeoutMs: 60,
    })
    expect(ConnectError.from(await call.catch((error) => error)).code).toBe(Code.DeadlineExceeded)
  })
})

describe('1,000 calls at a time on one connection', () => {
  test('of grpc-js each get their own response', async () => {
    const held = Promise.withResolvers<void>()
    const { address, server } = await openEcho(held.promise)
    const client = openClient(address)
    const calls = Array.from({ length: 1_000 }, (_, n) =>
      callUnary(client, getTransaction, { ...LOOK_UP, sessionId: `s-${n}` }),
    )
    held.resolve()
    const found = await Promise.all(calls)
    expect(found.map((each) => each.message?.transaction?.sessionId)).toEqual(
      Array.from({ length: 1_000 }, (_, n) => `s-${n}`),
    )
    expect(server.connections()).toBe(1)
  })

  test('of Node’s own HTTP/2 too', async () => {
    const { address } = await openEcho()
    const session = openSession(address)
    const call = async () =>
      (await answerOf(beginCall(session, PATH), framed(message)))['grpc-status']
    const codes = await Promise.all(Array.from({ length: 1_000 }, call))
    expect(new Set(codes)).toEqual(new Set(['0']))
  })
})

test('health can be asked with a compressed message', async () => {
  const { address } = await openEcho()
  const body = framed(gzipSync(Buffer.alloc(0)))
  body[0] = 1
  const headers = { ':path': '/grpc.health.v1.Health/Check', 'grpc-encoding': 'gzip' }
  expect(await ask(address, body, headers)).toMatchObject({ 'grpc-status': '0' })
})
