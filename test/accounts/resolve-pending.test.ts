import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { AccountStatus } from '../../gen/inflow/account/v1/account_pb.ts'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { detailsText } from '../../src/accounts/account.ts'
import { MAGIC_PHONES } from '../../src/banks/sandbox.ts'
import { newReference } from '../../src/core/ids.ts'
import { createEncrypter } from '../../src/crypto/encryption.ts'
import { asJson, creation, GENERATE, send } from '../protocols/rest/rest.ts'
import { type Instance, startInstance } from '../support/instance.ts'
import { MASTER_KEY, useSharedService } from '../support/service.ts'

const service = useSharedService()
const encrypter = createEncrypter(MASTER_KEY)

let second: Instance

beforeAll(async () => {
  second = await startInstance(service.url)
})

afterAll(() => second?.close())

const CUSTOMER = {
  firstName: 'Ada',
  lastName: 'Obi',
  email: 'ada@example.com',
  phone: '08012345678',
}

/** Stores the account of a caller that died during the bank's call. @returns its reference */
async function insertAbandoned(businessId: string, claimedForMs: number): Promise<string> {
  const details = { bank: '9PSB', ...CUSTOMER, idType: undefined, idNumber: undefined } as const
  const reference = newReference()
  const now = Date.now()
  await service.database.durablePool.query(
    `insert into account (id, business_id, live, reference, merchant_reference, bank, status,
        first_name, last_name, email, phone, details_hash, attempts, claimed_until, created_at)
      values ($1, $2, true, $3, 'order-1', '9PSB', 'PENDING', 'Ada', 'Obi', 'ada@example.com',
        '08012345678', $4, 1, $5, $6)`,
    [
      `acc_${reference}`,
      businessId,
      reference,
      encrypter.fingerprint(detailsText(details)),
      new Date(now + claimedForMs),
      new Date(now),
    ],
  )
  return reference
}

async function stored(businessId: string) {
  const { rows } = await service.database.durablePool.query(
    'select reference, status, attempts from account where business_id = $1',
    [businessId],
  )
  return rows
}

async function generate(instance: { httpUrl: string }, key: string, body: unknown) {
  const request = { path: GENERATE, headers: asJson(key), body: JSON.stringify(body) }
  const { status, headers, text } = await send(instance.httpUrl, request)
  const reference: string | undefined = JSON.parse(text).data?.reference
  return { status, reference, replayed: headers['idempotent-replayed'] === 'true' }
}

describe('a creation whose first caller died during the call', () => {
  test('is completed by the next call under the same reference', async () => {
    const { id, key } = await service.business()
    const reference = await insertAbandoned(id, -1)
    const response = await generate(service, key, creation())
    expect(response).toEqual({ status: 200, reference, replayed: false })
    expect(await stored(id)).toEqual([{ reference, status: 'ACTIVE', attempts: 2 }])
  })

  test('is awaited while its claim is valid, and completed once when the claim expires', async () => {
    const { id, key } = await service.business()
    const reference = await insertAbandoned(id, 400)
    const startedMs = Date.now()
    const copies = await Promise.all(
      Array.from({ length: 40 }, (_, index) =>
        generate(index % 2 === 0 ? service : second, key, creation()),
      ),
    )
    expect(Date.now() - startedMs).toBeGreaterThanOrEqual(380)
    for (const copy of copies) expect(copy).toMatchObject({ status: 200, reference })
    expect(copies.filter((copy) => !copy.replayed)).toHaveLength(1)
    expect(await stored(id)).toEqual([{ reference, status: 'ACTIVE', attempts: 2 }])
  })

  test('conflicts at once with other details, even while its claim is valid', async () => {
    const { id, key } = await service.business()
    await insertAbandoned(id, 60_000)
    expect((await generate(service, key, creation({ lastName: 'Okafor' }))).status).toBe(409)
    expect(await stored(id)).toMatchObject([{ status: 'PENDING', attempts: 1 }])
  })

  test('is listed as pending to operators, and can be completed over gRPC', async () => {
    const { id } = await service.business()
    const reference = await insertAbandoned(id, -1)
    const accounts = service.client(AccountService)
    const status = AccountStatus.PENDING
    const { accounts: pending } = await accounts.listAccounts({ businessId: id, status })
    expect(pending).toMatchObject([{ reference, status, accountNumber: '', accountName: '' }])
    const { account, replayed } = await accounts.createAccount({
      businessId: id,
      reference: 'order-1',
      bank: 1,
      ...CUSTOMER,
    })
    expect([account!.reference, account!.status, replayed]).toEqual([
      reference,
      AccountStatus.ACTIVE,
      false,
    ])
  })
})

test('concurrent copies ask an unresponsive bank once, and so do their repeats', async () => {
  const { id, key } = await service.business()
  const body = creation({ phone: MAGIC_PHONES.timesOut })
  const fifty = () => Promise.all(Array.from({ length: 50 }, () => generate(service, key, body)))
  expect(new Set((await fifty()).map((response) => response.status))).toEqual(new Set([503]))
  const [pending] = await stored(id)
  expect(pending).toMatchObject({ status: 'PENDING', attempts: 1 })
  expect(new Set((await fifty()).map((response) => response.status))).toEqual(new Set([200]))
  expect(await stored(id)).toEqual([{ ...pending, status: 'ACTIVE', attempts: 2 }])
})
