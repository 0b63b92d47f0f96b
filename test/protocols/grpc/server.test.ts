import { gzipSync } from 'node:zlib'
import { create, toBinary } from '@bufbuild/protobuf'
import { Code, ConnectError, createClient } from '@connectrpc/connect'
import { createGrpcTransport } from '@connectrpc/connect-node'
import { compressionAlgorithms, status } from '@grpc/grpc-js'
import { describe, expect, test } from 'vitest'
import {
  BadRequestSchema,
  ErrorInfoSchema,
  RetryInfoSchema,
} from '../../../gen/google/rpc/error_details_pb.ts'
import {
  GetTransactionRequestSchema,
  RecordPaymentRequestSchema,
  TransactionService,
} from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { Fault } from '../../../src/core/errors.ts'
import { waitFor } from '../../support/wait-for.ts'
import {
  answerOf,
  beginCall,
  callUnary,
  openClient,
  openRawCall,
  openSession,
  openTestServer,
} from './fixture.ts'
import { framed } from './http2-frames.ts'

const { recordPayment, recordPayments, getTransaction } = TransactionService.method

const PAYMENT = {
  bank: Bank.BANK_9PSB,
  accountNumber: '0123456789',
  sessionId: '000001261120100000000000000001',
  amountMinor: 150_050n,
}
const LOOK_UP = { sessionId: 's-1', businessId: 'biz_1' }
const PATH = `/${TransactionService.typeName}/GetTransaction`

const serve = (transactions: Parameters<typeof openTestServer>[0]['transactions'] & {}) =>
  openTestServer({ transactions })

const ask = (address: string, body: Buffer, headers: Readonly<Record<string, string>>) =>
  answerOf(beginCall(openSession(address), headers[':path'] ?? PATH, headers), body)

function connectClient(address: string) {
  const transport = createGrpcTransport({ baseUrl: `http://${address}` })
  return createClient(TransactionService, transport)
}

test('a compressed batch of 1,000 payments is read', async () => {
  const { address } = await serve({
    recordPayments: ({ payments }) => ({ results: payments.map(() => ({ outcome: 1 })) }),
  })
  const client = openClient(address, {
    'grpc.default_compression_algorithm': compressionAlgorithms.gzip,
  })
  const payment = { ...PAYMENT, narration: 'é'.repeat(500), payer: { name: 'n'.repeat(500) } }
  const payments = Array.from({ length: 1000 }, () => payment)
  const { message } = await callUnary(client, recordPayments, { payments })
  expect(message?.results).toHaveLength(1000)
})

test('a time-out of more than 24 days has not passed', async () => {
  const { address } = await serve({ getTransaction: () => ({}) })
  const message = toBinary(
    GetTransactionRequestSchema,
    create(GetTransactionRequestSchema, LOOK_UP),
  )
  const headers = { 'grpc-timeout': '99999999H' }
  expect(await ask(address, framed(Buffer.from(message)), headers)).toMatchObject({
    'grpc-status': '0',
  })
})

describe('a fault', () => {
  const fault = new Fault('rate_limited', 'Trop d’appels — réessayez: 100 % \ud800', {
    fields: [{ field: 'sessionId', message: 'is taken' }],
    retryAfterSeconds: 7,
  })
  const text = 'Trop d’appels — réessayez: 100 % \ufffd'

  test('reaches clients of grpc-js and connect-node with code, text, request id and details', async () => {
    const { address } = await serve({
      getTransaction: () => {
        throw fault
      },
    })
    const { error: plain } = await callUnary(openClient(address), getTransaction, LOOK_UP)
    expect(plain).toMatchObject({ code: status.RESOURCE_EXHAUSTED, details: text })
    expect(plain?.metadata.get('x-request-id')).toEqual(['req_1'])
    expect(plain?.metadata.get('grpc-status-details-bin')[0]).toBeInstanceOf(Buffer)

    const error = await connectClient(address).getTransaction(LOOK_UP).catch(ConnectError.from)
    if (!(error instanceof ConnectError)) throw new Error('it must fail')
    expect(error).toMatchObject({ code: Code.ResourceExhausted, rawMessage: text })
    expect(error.metadata.get('x-request-id')).toBe('req_2')
    const metadata = { doc_url: '/docs/errors#rate_limited', request_id: 'req_2' }
    expect(error.findDetails(ErrorInfoSchema)).toMatchObject([
      { reason: 'rate_limited', domain: 'inflow', metadata },
    ])
    expect(error.findDetails(BadRequestSchema)).toMatchObject([
      { fieldViolations: [{ field: 'sessionId', description: 'is taken' }] },
    ])
    expect(error.findDetails(RetryInfoSchema)).toMatchObject([{ retryDelay: { seconds: 7n } }])
  })

  test('of a response that cannot be encoded is INTERNAL', async () => {
    const { address, logged } = await serve({
      recordPayment: () => ({ transaction: { amountMinor: 'ten' as never } }),
    })
    const { error } = await callUnary(openClient(address), recordPayment, PAYMENT)
    expect(error?.code).toBe(status.INTERNAL)
    expect(logged).toHaveLength(1)
  })
})

describe('an invalid call', () => {
  test('whose bytes do not parse is INVALID_ARGUMENT, after authentication', async () => {
    let called = 0
    const transactions = {
      getTransaction: () => {
        called++
        return {}
      },
    }
    const garbage = Buffer.from('ffffffffffffffffffff01', 'hex')
    const { address } = await serve(transactions)
    const { error } = await callUnary(openClient(address), getTransaction, garbage)
    expect(error?.code).toBe(status.INVALID_ARGUMENT)
    expect(error?.details).toContain('inflow.transaction.v1.GetTransactionRequest')

    const closed = await openTestServer({
      transactions,
      interceptors: [
        () => async () => {
          throw new Fault('unauthorized', 'Who are you?')
        },
      ],
    })
    const stranger = await callUnary(openClient(closed.address), getTransaction, garbage)
    expect(stranger.error?.code).toBe(status.UNAUTHENTICATED)
    expect(called).toBe(0)
  })

  test('of an unknown method is UNIMPLEMENTED, and the server goes on', async () => {
    const { address } = await serve({ getTransaction: () => ({}) })
    for (const path of ['/inflow.nothing.v1.NoService/Go', '/é%0d%0a/%']) {
      expect(await ask(address, Buffer.alloc(5), { ':path': path })).toMatchObject({
        'grpc-status': `${status.UNIMPLEMENTED}`,
      })
    }
    const { error } = await callUnary(openClient(address), getTransaction, LOOK_UP)
    expect(error).toBeUndefined()
  })

  test('whose message expands to more than 4 MiB is refused', async () => {
    const { address } = await serve({ getTransaction: () => ({}) })
    const bomb = framed(gzipSync(Buffer.alloc(4 * 1024 * 1024 + 1)))
    bomb[0] = 1
    expect(await ask(address, bomb, { 'grpc-encoding': 'gzip' })).toMatchObject({
      'grpc-status': `${status.RESOURCE_EXHAUSTED}`,
    })
  })
})

describe('the signal of a call', () => {
  function waiting() {
    const signals: AbortSignal[] = []
    const ended = Promise.withResolvers<unknown>()
    const getTransaction = (_: unknown, { signal }: { signal: AbortSignal }) =>
      new Promise<object>((_, reject) => {
        const abort = () => {
          ended.resolve(signal.reason)
          reject(signal.reason)
        }
        // On a busy machine the call may be over before it begins.
        if (signal.aborted) abort()
        else signal.addEventListener('abort', abort)
        signals.push(signal)
      })
    return { signals, ended: ended.promise, transactions: { getTransaction } }
  }

  test('aborts at the deadline', async () => {
    const { signals, ended, transactions } = waiting()
    const { address, logged } = await serve(transactions)
    const client = openClient(address)
    // A busy machine starts the handler after the deadline, which is later in the next attempt.
    for (let ms = 200; signals.length === 0; ms *= 2) {
      const options = { deadline: Date.now() + ms }
      const call = await callUnary(client, getTransaction, LOOK_UP, undefined, options)
      expect(call.error?.code).toBe(status.DEADLINE_EXCEEDED)
    }
    expect(await ended).toMatchObject({ reason: 'cancelled' })
    expect(logged).toEqual([])
  })

  test('aborts when the client cancels, and when its connection is cut', async () => {
    const { signals, ended, transactions } = waiting()
    const { address } = await serve(transactions)
    const controller = new AbortController()
    const call = connectClient(address).getTransaction(LOOK_UP, { signal: controller.signal })
    const cancelled = expect(call).rejects.toMatchObject({ code: Code.Canceled })
    await waitFor(() => expect(signals).toHaveLength(1))
    controller.abort()
    await cancelled
    expect(await ended).toMatchObject({ reason: 'cancelled' })

    const raw = openRawCall(address, getTransaction, LOOK_UP)
    await waitFor(() => expect(signals).toHaveLength(2))
    raw.session?.destroy()
    await waitFor(() => expect(signals[1]?.aborted).toBe(true))
  })

  test('does not abort after the response', async () => {
    let signal: AbortSignal | undefined
    const { address } = await serve({
      recordPayment: (_, context) => {
        signal = context.signal
        return {}
      },
    })
    const client = openClient(address)
    await callUnary(client, recordPayment, create(RecordPaymentRequestSchema, PAYMENT))
    await callUnary(client, recordPayment, PAYMENT)
    expect(signal?.aborted).toBe(false)
  })
})
