import { afterAll, beforeAll, expect, test } from 'vitest'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { asJson, creation, GENERATE, send } from '../protocols/rest/rest.ts'
import { type Instance, startInstance } from '../support/instance.ts'
import { useSharedService } from '../support/service.ts'

const service = useSharedService()

let second: Instance

beforeAll(async () => {
  second = await startInstance(service.url)
})

afterAll(() => second?.close())

/** Sends a creation over REST, to either instance in turn. */
async function create(index: number, key: string, body: object) {
  const { httpUrl } = index % 2 === 0 ? service : second
  const request = { path: GENERATE, headers: asJson(key), body: JSON.stringify(body) }
  const { status, headers, text } = await send(httpUrl, request)
  const number: string | undefined = JSON.parse(text).data?.account[0].account_number
  return { status, number, replayed: headers['idempotent-replayed'] === 'true' }
}

/** Sends the same creation over gRPC. */
async function createOverGrpc(index: number, businessId: string) {
  const at = index % 2 === 0 ? service : second
  const request = { ...creation(), businessId, bank: Bank.BANK_9PSB }
  const { account, replayed } = await at.client(AccountService).createAccount(request as object)
  return { status: 200, number: account!.accountNumber, replayed }
}

async function accountsOf(businessId: string) {
  const { rows } = await service.database.durablePool.query(
    'select status, attempts, account_number as number from account where business_id = $1',
    [businessId],
  )
  return rows
}

test('40 copies of one creation over REST and gRPC at two instances open one account', async () => {
  const { id, key } = await service.business()
  const answers = await Promise.all(
    Array.from({ length: 20 }, (_, index) => [
      create(index, key, creation()),
      createOverGrpc(index, id),
    ]).flat(),
  )
  const [account, ...others] = await accountsOf(id)
  expect(others).toEqual([])
  // Each call to the bank is one attempt.
  expect(account).toMatchObject({ status: 'ACTIVE', attempts: 1 })
  for (const answer of answers) {
    expect(answer).toMatchObject({ status: 200, number: account.number })
  }
  expect(answers.filter(({ replayed }) => !replayed)).toHaveLength(1)
  const { rows: events } = await service.database.durablePool.query(
    'select kind from outbox where business_id = $1',
    [id],
  )
  expect(events).toEqual([{ kind: 'ACCOUNT_CREATED' }])
})

test('concurrent copies with different details open one account and report conflicts', async () => {
  const { id, key } = await service.business()
  const answers = await Promise.all(
    Array.from({ length: 30 }, (_, index) =>
      create(index, key, creation({ firstName: `Ada${index % 3}` })),
    ),
  )
  const [account, ...others] = await accountsOf(id)
  expect(others).toEqual([])
  const opened = answers.filter(({ status }) => status === 200)
  expect(opened.map(({ number }) => number)).toEqual(Array(10).fill(account.number))
  expect(answers.filter(({ status }) => status === 409)).toHaveLength(20)
})
