import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { MAGIC_PHONES } from '../../src/banks/sandbox.ts'
import { creation } from '../protocols/rest/rest.ts'
import { grpcClient } from '../support/grpc-client.ts'
import { type Instance, startInstance } from '../support/instance.ts'
import { postRest, useService } from '../support/service.ts'
import { untilServed, waitFor } from '../support/wait-for.ts'

const service = useService()

let second: Instance

beforeAll(async () => {
  second = await startInstance(service.url)
})

afterAll(() => second?.close())

async function overRest({ httpUrl }: { httpUrl: string }, key: string, body: object) {
  const answer = await postRest(httpUrl, key, 'generateVirtualAccount/', body)
  return { ...answer, replayed: answer.headers.get('idempotent-replayed') === 'true' }
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
    const clients = [service, second].map(({ grpcUrl }) => grpcClient(AccountService, grpcUrl))
    const request = { ...body, businessId: id, bank: Bank.BANK_9PSB }
    const copies = Array.from({ length: 250 })
    const [rest, grpc] = await Promise.all([
      Promise.all(
        copies.flatMap(() =>
          [service, second].map((instance) => untilServed(() => overRest(instance, key, body))),
        ),
      ),
      Promise.all(
        copies.flatMap(() =>
          clients.map((client) => untilServed(() => client.createAccount(request))),
        ),
      ),
    ])

    const stored = await accountsOf(id)
    expect(stored).toHaveLength(1)
    expect(stored[0]).toMatchObject({ status: 'ACTIVE' })
    expect(new Set(rest.map((response) => response.text)).size).toBe(1)
    expect(JSON.parse(rest[0]!.text).data.reference).toBe(stored[0].reference)
    expect(rest.every((response) => response.status === 200)).toBe(true)
    const numbers = new Set(grpc.map(({ account }) => account!.accountNumber))
    expect([...numbers]).toEqual([stored[0].account_number])
    const all = [...rest, ...grpc]
    const firsts = all.filter(({ replayed }) => !replayed)
    expect(firsts.length).toBeLessThanOrEqual(1)
    if (all.every(({ sent }) => sent === 1)) {
      expect(firsts).toHaveLength(1)
      // Each call to the bank is one attempt.
      expect(stored[0]).toMatchObject({ attempts: 1 })
    }
    const { rows: events } = await service.database.durablePool.query(
      'select kind from outbox where business_id = $1',
      [id],
    )
    expect(events).toEqual([{ kind: 'ACCOUNT_CREATED' }])
  })
})

test('concurrent copies with different details open one account and report conflicts', async () => {
  const { id, key } = await service.business()
  const responses = await Promise.all(
    Array.from({ length: 60 }, (_, index) => {
      const instance = index % 2 === 0 ? service : second
      const body = creation({ firstName: `Ada${index % 3}` })
      return untilServed(() => overRest(instance, key, body))
    }),
  )
  expect(await accountsOf(id)).toHaveLength(1)
  const opened = responses.filter((response) => response.status === 200)
  expect(opened).toHaveLength(20)
  expect(new Set(opened.map((response) => response.text)).size).toBe(1)
  expect(responses.filter((response) => response.status === 409)).toHaveLength(40)
})

test('an account that is stored after its caller got 503 is opened by a repeat, because no bank was asked for it', async () => {
  const { id, key } = await service.business()
  const blocking = await service.database.durablePool.connect()
  await blocking.query('begin; lock table account in share row exclusive mode')
  const refused = await overRest(service, key, creation())
  await blocking.query('commit')
  blocking.release()
  expect(refused.status).toBe(503)
  const state = async () => {
    const text = 'select opening_state from account where business_id = $1'
    return (await service.database.durablePool.query(text, [id])).rows
  }
  await waitFor(async () => expect(await state()).toEqual([{ opening_state: 'RETRYABLE' }]))
  const repeated = await overRest(service, key, creation())
  expect(repeated).toMatchObject({ status: 200 })
  expect(await accountsOf(id)).toMatchObject([{ status: 'ACTIVE', attempts: 2 }])
})
