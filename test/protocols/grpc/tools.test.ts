import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import {
  credentials,
  loadPackageDefinition,
  type ServiceClientConstructor,
  type ServiceError,
  status,
} from '@grpc/grpc-js'
import { service as healthService } from 'grpc-health-check'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { SubscribeResponse } from '../../../gen/inflow/event/v1/event_service_pb.ts'
import { EventService } from '../../../gen/inflow/event/v1/event_service_pb.ts'
import { TransactionService } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { waitFor } from '../../support/wait-for.ts'
import {
  callStream,
  callUnary,
  openClient,
  openRawCall,
  openTestServer,
  statusOf,
} from './fixture.ts'

const { getTransaction } = TransactionService.method
const { subscribe } = EventService.method
const LOOK_UP = { sessionId: 's-1', businessId: 'biz_1' }

const BUF = fileURLToPath(new URL('../../../node_modules/.bin/buf', import.meta.url))

async function bufCurl(address: string, path: string, ...args: string[]): Promise<string> {
  const fixed = ['curl', '--protocol', 'grpc', '--http2-prior-knowledge', ...args]
  const { stdout } = await promisify(execFile)(BUF, [...fixed, `http://${address}${path}`])
  return stdout
}

function healthClient(address: string) {
  const { Health } = loadPackageDefinition({ Health: healthService }) as unknown as {
    Health: ServiceClientConstructor
  }
  const client = new Health(address, credentials.createInsecure())
  onTestFinished(() => client.close())
  return client
}

function check(client: ReturnType<typeof healthClient>, service: string) {
  return new Promise<string | number | undefined>((resolve) =>
    client['check']!({ service }, (error: ServiceError | null, response?: { status: string }) =>
      resolve(error?.code ?? response?.status),
    ),
  )
}

describe('health', () => {
  test('is SERVING for the server and every service, and unknown for others', async () => {
    const { address } = await openTestServer({})
    const client = healthClient(address)
    expect(await check(client, '')).toBe('SERVING')
    expect(await check(client, 'inflow.event.v1.EventService')).toBe('SERVING')
    expect(await check(client, 'inflow.nothing.v1.NoService')).toBe(status.NOT_FOUND)
  })

  test('watchers get NOT_SERVING on a drain, and do not delay it', async () => {
    const { server, address } = await openTestServer({})
    const watch = healthClient(address)['watch']!({ service: '' })
    const statuses: string[] = []
    watch.on('data', (response: { status: string }) => statuses.push(response.status))
    watch.on('error', () => undefined)
    await waitFor(() => expect(statuses).toEqual(['SERVING']))
    await server.close(60_000)
    await waitFor(() => expect(statuses).toEqual(['SERVING', 'NOT_SERVING']))
  })
})

describe('reflection', () => {
  test('lets buf curl list services, and call with a body', async () => {
    const { address } = await openTestServer({
      transactions: {
        getTransaction: ({ sessionId }) => ({
          transaction: { sessionId, amountMinor: 150_050n, paidAt: { seconds: 1_795_000_000n } },
        }),
      },
    })
    expect((await bufCurl(address, '', '--list-services')).trim().split('\n')).toEqual([
      'grpc.health.v1.Health',
      'inflow.event.v1.EventService',
      'inflow.transaction.v1.TransactionService',
    ])
    const found = await bufCurl(
      address,
      '/inflow.transaction.v1.TransactionService/GetTransaction',
      '-d',
      '{"sessionId": "s-1", "businessId": "biz_1"}',
    )
    expect(JSON.parse(found)).toEqual({
      transaction: {
        sessionId: 's-1',
        amountMinor: '150050',
        paidAt: new Date(1_795_000_000_000).toISOString().replace('.000', ''),
      },
    })
  })

  test('can be off', async () => {
    const { address } = await openTestServer({ reflection: false })
    await expect(bufCurl(address, '', '--list-services')).rejects.toThrow()
  })
})

describe('closing the server', () => {
  test('ends streams with UNAVAILABLE when the time is over, and frees their sources', async () => {
    let freed = 0
    const { server, address } = await openTestServer({
      events: {
        async *subscribe(_, { signal }) {
          try {
            yield { item: { case: 'checkpoint' as const, value: { cursor: 'c1' } } }
            await new Promise((resolve) => signal.addEventListener('abort', resolve))
          } finally {
            freed++
          }
        },
      },
    })
    const call = callStream(openClient(address), subscribe, {})
    const ended = statusOf(call)
    await new Promise<SubscribeResponse>((resolve) => call.on('data', resolve))
    const closed = Promise.all([server.close(20), server.close(20)])
    // On a machine that stands still, all times are over at once.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_500)
    const [cut, cutAgain] = await closed
    // The stream; its connection too if the client is slow to leave.
    expect([1, 2]).toContain(cut)
    expect(cutAgain).toBe(cut)
    expect(await ended).toMatchObject({ code: status.UNAVAILABLE })
    expect((await ended).metadata.get('grpc-status-details-bin')).toHaveLength(1)
    expect(freed).toBe(1)
  })

  test('cuts a client that does not read and a call that does not end', async () => {
    const message = { item: { case: 'checkpoint' as const, value: { cursor: 'c'.repeat(50_000) } } }
    let called = 0
    let aborted = 0
    let pulled = 0
    const { server, address } = await openTestServer({
      transactions: {
        getTransaction: (_, { signal }) =>
          new Promise((_, reject) => {
            called++
            signal.addEventListener('abort', () => {
              aborted++
              reject(signal.reason)
            })
          }),
      },
      events: {
        async *subscribe() {
          for (;;) {
            pulled++
            yield message
          }
        },
      },
    })
    openRawCall(address, subscribe, {})
    const endless = callUnary(openClient(address), getTransaction, LOOK_UP)
    await waitFor(() => expect([pulled > 1, called]).toEqual([true, 1]))
    // The stream and the connection of the call; that of the stream too if its client is slow to leave.
    expect(await server.close(20)).toBeGreaterThan(1)
    expect((await endless).error).toBeDefined()
    await waitFor(() => expect(aborted).toBe(1))
  })
})
