import { Agent, request } from 'node:http'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { Client, credentials, Metadata } from '@grpc/grpc-js'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  AccountService,
  CreateAccountRequestSchema,
  type CreateAccountResponse,
  CreateAccountResponseSchema,
} from '../../gen/inflow/account/v1/account_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { MAGIC_PHONES } from '../../src/banks/sandbox.ts'
import { creation, GENERATE } from '../protocols/rest/rest.ts'
import { type Instance, startInstance } from '../support/instance.ts'
import { ADMIN_TOKEN, useService } from '../support/service.ts'

const service = useService()

let second: Instance

beforeAll(async () => {
  second = await startInstance(service.url)
})

afterAll(() => second?.close())

interface RestResponse {
  readonly status: number
  readonly text: string
  readonly replayed: boolean
}

/** Posts over the agent's connections, all open at once. */
function overRest(instance: { httpUrl: string }, key: string, body: unknown, agent: Agent) {
  return new Promise<RestResponse>((resolve, reject) => {
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${key}` }
    const call = request(
      instance.httpUrl + GENERATE,
      { method: 'POST', headers, agent },
      (response) => {
        let text = ''
        response.on('data', (chunk) => {
          text += chunk
        })
        response.on('end', () => {
          const replayed = response.headers['idempotent-replayed'] === 'true'
          resolve({ status: response.statusCode ?? 0, text, replayed })
        })
      },
    )
    call.on('error', reject)
    call.end(JSON.stringify(body))
  })
}

function overGrpc(client: Client, businessId: string, body: object) {
  const metadata = new Metadata()
  metadata.set('authorization', `Bearer ${ADMIN_TOKEN}`)
  const bank = Bank.BANK_9PSB
  const message = create(CreateAccountRequestSchema, { ...body, businessId, bank })
  return new Promise<CreateAccountResponse>((resolve, reject) => {
    client.makeUnaryRequest(
      `/${AccountService.typeName}/CreateAccount`,
      () => Buffer.from(toBinary(CreateAccountRequestSchema, message)),
      (bytes: Buffer) => fromBinary(CreateAccountResponseSchema, bytes),
      null,
      metadata,
      (error, response) => (error ? reject(error) : resolve(response!)),
    )
  })
}

async function accountsOf(businessId: string) {
  const { rows } = await service.database.durablePool.query(
    'select reference, status, attempts, account_number from account where business_id = $1',
    [businessId],
  )
  return rows
}

describe('1,000 copies of one creation at once, over REST and gRPC at two instances', () => {
  test.each([
    ['a bank that responds at once', creation()],
    ['a bank that takes two seconds', creation({ phone: MAGIC_PHONES.respondsLate })],
  ])('make one account with one call to %s, and get one response', async (_name, body) => {
    const { id, key } = await service.business()
    const agent = new Agent({ keepAlive: true, maxSockets: 250 })
    const clients = [service, second].map(
      (instance) => new Client(new URL(instance.grpcUrl).host, credentials.createInsecure()),
    )
    const copies = Array.from({ length: 250 })
    const [rest, grpc] = await Promise.all([
      Promise.all(
        copies.flatMap(() =>
          [service, second].map((instance) => overRest(instance, key, body, agent)),
        ),
      ),
      Promise.all(copies.flatMap(() => clients.map((client) => overGrpc(client, id, body)))),
    ])
    agent.destroy()
    for (const client of clients) client.close()

    const stored = await accountsOf(id)
    expect(stored).toHaveLength(1)
    // Each call to the bank is one attempt.
    expect(stored[0]).toMatchObject({ status: 'ACTIVE', attempts: 1 })
    expect(new Set(rest.map((response) => response.text)).size).toBe(1)
    expect(JSON.parse(rest[0]!.text).data.reference).toBe(stored[0].reference)
    expect(rest.every((response) => response.status === 200)).toBe(true)
    const numbers = new Set(grpc.map(({ account }) => account!.accountNumber))
    expect([...numbers]).toEqual([stored[0].account_number])
    const firsts = [...rest, ...grpc].filter(({ replayed }) => !replayed)
    expect(firsts).toHaveLength(1)
    const { rows: events } = await service.database.durablePool.query(
      'select kind from outbox where business_id = $1',
      [id],
    )
    expect(events).toEqual([{ kind: 'ACCOUNT_CREATED' }])
  })
})

test('concurrent copies with different details open one account and report conflicts', async () => {
  const { id, key } = await service.business()
  const agent = new Agent({ keepAlive: true })
  const responses = await Promise.all(
    Array.from({ length: 60 }, (_, index) => {
      const instance = index % 2 === 0 ? service : second
      return overRest(instance, key, creation({ firstName: `Ada${index % 3}` }), agent)
    }),
  )
  agent.destroy()
  expect(await accountsOf(id)).toHaveLength(1)
  const opened = responses.filter((response) => response.status === 200)
  expect(opened).toHaveLength(20)
  expect(new Set(opened.map((response) => response.text)).size).toBe(1)
  expect(responses.filter((response) => response.status === 409)).toHaveLength(40)
})

test('two businesses can use the same reference at once and get two accounts', async () => {
  const first = await service.business()
  const other = await service.business()
  const agent = new Agent()
  const [one, two] = await Promise.all([
    overRest(service, first.key, creation(), agent),
    overRest(second, other.key, creation(), agent),
  ])
  expect(JSON.parse(one.text).data.reference).not.toBe(JSON.parse(two.text).data.reference)
  for (const [{ id }, { text }] of [
    [first, one],
    [other, two],
  ] as const) {
    const { reference } = JSON.parse(text).data
    expect((await accountsOf(id)).map((row) => row.reference)).toEqual([reference])
  }
})

test('concurrent creations at two instances each get their own number', async () => {
  const { id, key } = await service.business()
  const agent = new Agent({ keepAlive: true, maxSockets: 100 })
  await Promise.all(
    Array.from({ length: 600 }, (_, index) => {
      const body = creation({ reference: `order-${index}` })
      return overRest(index % 2 === 0 ? service : second, key, body, agent)
    }),
  )
  agent.destroy()
  const stored = await accountsOf(id)
  expect(stored).toHaveLength(600)
  expect(new Set(stored.map((row) => row.account_number)).size).toBe(600)
  expect(new Set(stored.map((row) => row.reference)).size).toBe(600)
})
