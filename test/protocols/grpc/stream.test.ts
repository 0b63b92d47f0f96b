import { create } from '@bufbuild/protobuf'
import { createClient } from '@connectrpc/connect'
import { createGrpcTransport } from '@connectrpc/connect-node'
import { status } from '@grpc/grpc-js'
import { describe, expect, test } from 'vitest'
import {
  EventService,
  type SubscribeResponse,
  SubscribeResponseSchema,
} from '../../../gen/inflow/event/v1/event_service_pb.ts'
import { Fault } from '../../../src/core/errors.ts'
import { waitFor } from '../../support/wait-for.ts'
import {
  callStream,
  metadataOf,
  openClient,
  openRawCall,
  openTestServer,
  statusOf,
} from './fixture.ts'

const { subscribe } = EventService.method

function checkpoint(cursor: string): SubscribeResponse {
  return create(SubscribeResponseSchema, { item: { case: 'checkpoint', value: { cursor } } })
}

type Subscribe = NonNullable<
  NonNullable<Parameters<typeof openTestServer>[0]['events']>['subscribe']
>

const serve = (subscribe: Subscribe) => openTestServer({ events: { subscribe } })

/** Waits for ever, or until the signal aborts. */
function never(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason))
  })
}

/** A source without end whose messages are large; it counts what was asked for. */
function flood() {
  const seen = { pulled: 0, returned: 0 }
  const message = checkpoint('c'.repeat(10_000))
  async function* source() {
    try {
      for (;;) {
        seen.pulled++
        yield message
      }
    } finally {
      seen.returned++
    }
  }
  return { seen, source }
}

/** Resolves when the number has stopped growing. */
async function settled(read: () => number): Promise<number> {
  let [last, looks] = [-1, 0]
  await waitFor(() => {
    const now = read()
    looks = now > 0 && now === last ? looks + 1 : 0
    last = now
    expect(looks).toBe(3)
  })
  return last
}

describe('a stream', () => {
  test('carries every message in order, with headers first, to other clients', async () => {
    const { address } = await serve(async function* (_, context) {
      context.responseHeader.set('x-epoch', '7')
      for (let n = 0; n < 500; n++) yield checkpoint(`c${n}`)
    })
    const expected = Array.from({ length: 500 }, (_, n) => `c${n}`)
    const call = callStream(openClient(address), subscribe, {})
    const header = new Promise((resolve) => call.on('metadata', (got) => resolve(got.getMap())))
    const cursors: unknown[] = []
    for await (const message of call) cursors.push(message.item.value.cursor)
    expect(await header).toMatchObject({ 'x-epoch': '7', 'x-request-id': 'req_1' })
    expect(cursors).toEqual(expected)

    const transport = createGrpcTransport({ baseUrl: `http://${address}` })
    const again: unknown[] = []
    for await (const { item } of createClient(EventService, transport).subscribe({})) {
      if (item.case === 'checkpoint') again.push(item.value.cursor)
    }
    expect(again).toEqual(expected)
  })

  test('that fails in progress delivers the messages before, and ends with its fault', async () => {
    const { address, logged } = await serve(async function* () {
      yield checkpoint('c1')
      throw new Fault('invalid_cursor', 'The cursor is gone')
    })
    const call = callStream(openClient(address), subscribe, {})
    const ended = statusOf(call)
    const received: unknown[] = []
    call.on('data', (message) => received.push(message.item.value.cursor))
    expect(await ended).toMatchObject({
      code: status.INVALID_ARGUMENT,
      details: 'The cursor is gone',
    })
    expect((await ended).metadata.get('x-request-id')).toEqual(['req_1'])
    expect((await ended).metadata.get('grpc-status-details-bin')).toHaveLength(1)
    expect(received).toEqual(['c1'])
    expect(logged).toMatchObject([{ request_id: 'req_1', reason: 'invalid_cursor' }])
  })
})

describe('a client that disconnects', () => {
  test('frees a source that waits for its next message', async () => {
    const ended = Promise.withResolvers<unknown>()
    const { address, logged } = await serve(async function* (_, { signal }) {
      try {
        yield checkpoint('c1')
        await never(signal)
      } finally {
        ended.resolve(signal.reason)
      }
    })
    const call = callStream(openClient(address), subscribe, {})
    call.once('data', () => call.cancel())
    expect(await ended.promise).toMatchObject({ reason: 'cancelled' })
    expect(logged).toEqual([])
  })

  test('frees an iterator that ignores signals', async () => {
    const ended = Promise.withResolvers<string>()
    const first = { done: false as const, value: checkpoint('c1') }
    let pulls = 0
    const iterator = {
      next: () => (pulls++ === 0 ? Promise.resolve(first) : new Promise<never>(() => undefined)),
      return: async () => {
        ended.resolve('returned')
        return { done: true as const, value: undefined }
      },
    }
    const { address } = await serve(() => ({ [Symbol.asyncIterator]: () => iterator }))
    const call = callStream(openClient(address), subscribe, {})
    call.once('data', () => call.cancel())
    expect(await ended.promise).toBe('returned')
  })

  test('without reading costs a bounded number of messages, and frees the source', async () => {
    const { seen, source } = flood()
    const { address } = await serve(source)
    const call = openRawCall(address, subscribe, {})
    const pulled = await settled(() => seen.pulled)
    // The client's window of 64 KiB; the source could give for ever.
    expect(pulled).toBeLessThanOrEqual(32)
    expect(seen.returned).toBe(0)
    call.close(8)
    await waitFor(() => expect(seen.returned).toBe(1))
    expect(seen.pulled).toBeLessThanOrEqual(pulled + 1)
  })

  test('while it is being authorised never starts the source', async () => {
    const { seen, source } = flood()
    const held = Promise.withResolvers<void>()
    const signals: AbortSignal[] = []
    const { server, address } = await openTestServer({
      events: { subscribe: source },
      interceptors: [
        (next) => async (request) => {
          signals.push(request.signal)
          await held.promise
          if (request.header.has('x-unwanted')) throw new Fault('unauthorized', 'Who are you?')
          return next(request)
        },
      ],
    })
    const client = openClient(address)
    const calls = [
      callStream(client, subscribe, {}),
      callStream(client, subscribe, {}, {}, metadataOf({ 'x-unwanted': '1' })),
    ]
    const ended = Promise.all(calls.map(statusOf))
    await waitFor(() => expect(signals).toHaveLength(2))
    for (const call of calls) call.cancel()
    expect((await ended).map(({ code }) => code)).toEqual([status.CANCELLED, status.CANCELLED])
    await waitFor(() => expect(signals.map(({ aborted }) => aborted)).toEqual([true, true]))
    held.resolve()
    await server.close(1_000)
    expect(seen.pulled).toBe(0)
  })
})
