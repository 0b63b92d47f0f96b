import { beforeAll, describe, expect, test } from 'vitest'
import { SandboxService } from '../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { encryptedAccounts } from '../../src/accounts/re-encrypt-accounts.ts'
import { MAGIC_PHONES } from '../../src/banks/sandbox/sandbox.ts'
import { keyIdOf } from '../../src/businesses/secret-key.ts'
import { createEncrypter } from '../../src/crypto/encryption.ts'
import { creation } from '../protocols/rest/rest.ts'
import { MASTER_KEY, useService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { audited, data, failure, openByKey, type ScopedBusiness, scopedBusiness } from './scene.ts'

const service = useService()
let business: ScopedBusiness
let stranger: ScopedBusiness

beforeAll(async () => {
  business = await scopedBusiness(service)
  stranger = await scopedBusiness(service)
})

const PALMPAY = { bank: 'PALMPAY', idType: 'nin', idNumber: '12345678901' }

describe('getVirtualAccount/ by e-mail address', () => {
  test('returns all accounts of the customer in the mode, of every bank, in pages', async () => {
    const [shop, other] = [await scopedBusiness(service), await scopedBusiness(service)]
    const email = 'many@example.com'
    const open = (reference: string, key: string, more = {}) =>
      data(service, key, 'generateVirtualAccount', creation({ reference, email, ...more }))
    const opened = []
    for (const bank of ['9PSB', 'SAFEHAVEN', 'PROVIDUS']) {
      opened.unshift(await open(`of ${bank}`, shop.live, { bank }))
    }
    // None of these is the customer's in this mode.
    await open('of the other mode', shop.test)
    await open('of a stranger', other.live)
    await open('of another customer', shop.live, { email: 'another@example.com' })

    const find = (more = {}) => data(service, shop.live, 'getVirtualAccount', { email, ...more })
    const { customer_accounts: all, ...newest } = await find()
    const facts = { customer: 'Ada Obi', status: 'ACTIVE' }
    expect(newest).toEqual({ ...opened[0], ...facts, merchant_reference: 'of PROVIDUS' })
    const banks = ['PROVIDUS', 'SAFEHAVEN', '9PSB']
    expect(all).toEqual({
      accounts: opened.map((account, index) => ({
        ...{ ...account, ...facts },
        merchant_reference: `of ${banks[index]}`,
      })),
    })
    const paged = []
    for (let token = ''; ; ) {
      const { customer_accounts: page } = await find({ page_size: 1, page_token: token })
      paged.push(...page.accounts)
      if (page.next_page_token === undefined) break
      token = page.next_page_token
    }
    expect(paged).toEqual(all.accounts)
  })

  test('is not_found without an account, and refuses what is no address; a reference wins', async () => {
    const shop = await scopedBusiness(service)
    const find = (body: object) => service.post('getVirtualAccount/', shop.live, body)
    expect((await find({ email: 'none@example.com' })).status).toBe(404)
    const { status, body } = await find({ email: 'no address' })
    expect([status, body.errors[0].field]).toEqual([422, 'email'])
    const { reference } = await openByKey(service, shop.live)
    for (const email of ['no address', 'none@example.com']) {
      expect((await find({ reference, email })).body.data.reference).toBe(reference)
    }
  })
})

describe('updateVirtualAccount/', () => {
  test('changes what is given, keeps the rest, and the name at the bank stays', async () => {
    const { reference, number } = await openByKey(service, business.live, { reference: 'u-1' })
    const change = { reference: 'u-1', firstName: 'Adah', email: 'adah@example.com' }
    const updated = await data(service, business.live, 'updateVirtualAccount', change)
    expect(updated).toMatchObject({
      reference,
      merchant_reference: 'u-1',
      status: 'ACTIVE',
      account: [{ account_number: number, account_name: 'Acme/Ada Obi' }],
      meta: { firstName: 'Adah', lastName: 'Obi', email: 'adah@example.com', phone: '08012345678' },
    })
    const shown = await data(service, business.live, 'getVirtualAccount', { reference })
    expect(shown.meta).toEqual({ firstName: 'Adah', lastName: 'Obi', email: 'adah@example.com' })
    const [entry] = await audited(service, business.id, 1)
    expect(entry).toMatchObject({
      action: 'account.update',
      by: `secret_key ${keyIdOf(business.live)}`,
      details: { reference, changed: ['firstName', 'email'] },
    })
    // No customer data in the audit log.
    expect(JSON.stringify(entry)).not.toMatch(/Adah|example/)
  })

  test('does nothing a second time', async () => {
    await openByKey(service, business.live, { reference: 'u-2' })
    const change = { reference: 'u-2', phone: '08087654321' }
    const first = await data(service, business.live, 'updateVirtualAccount', change)
    const before = await audited(service, business.id, 1)
    expect(await data(service, business.live, 'updateVirtualAccount', change)).toEqual(first)
    expect(await audited(service, business.id, 1)).toEqual(before)
  })

  test('makes a repeated creation compare with the changed details', async () => {
    const created = await openByKey(service, business.live, { reference: 'u-3', ...PALMPAY })
    await data(service, business.live, 'updateVirtualAccount', {
      reference: 'u-3',
      lastName: 'Ade',
    })
    const repeat = (overrides: object) =>
      service.post(
        'generateVirtualAccount/',
        business.live,
        creation({ reference: 'u-3', ...PALMPAY, ...overrides }),
      )
    const replayed = await repeat({ lastName: 'Ade' })
    expect(replayed.headers.get('idempotent-replayed')).toBe('true')
    expect(replayed.body.data.reference).toBe(created.reference)
    expect((await repeat({ lastName: 'Obi' })).body.code).toBe('duplicate_reference')
    expect((await repeat({ lastName: 'Ade', idNumber: '12345678902' })).status).toBe(409)
  })

  test('leaves a row that a rotation of the master key can re-encrypt', async () => {
    await openByKey(service, business.live, { reference: 'u-4', ...PALMPAY })
    await data(service, business.live, 'updateVirtualAccount', {
      reference: 'u-4',
      lastName: 'Ade',
    })
    const encrypted = encryptedAccounts(service.database)
    const next = createEncrypter(Buffer.alloc(32, 9), [MASTER_KEY])
    expect(await encrypted.reEncrypt(next, '', 1_000)).toMatchObject({ unreadable: [] })
    // And back, for the service that runs.
    const back = createEncrypter(MASTER_KEY, [Buffer.alloc(32, 9)])
    expect(await encrypted.reEncrypt(back, '', 1_000)).toMatchObject({ unreadable: [] })
  })

  test('is not possible while the bank has not opened the account', async () => {
    const pending = creation({ reference: 'u-5', phone: MAGIC_PHONES.refuses })
    expect((await service.post('generateVirtualAccount/', business.live, pending)).status).toBe(503)
    const change = { reference: 'u-5', phone: '08087654321' }
    expect(await failure(service, business.live, 'updateVirtualAccount', change)).toEqual([
      409,
      'account_pending',
    ])
  })

  test.each([
    [
      {},
      [
        'reference is required',
        'firstName is required, or lastName, email, phone, expiresAt, expiresIn or split is',
      ],
    ],
    [
      { reference: 'u-1' },
      ['firstName is required, or lastName, email, phone, expiresAt, expiresIn or split is'],
    ],
    [
      { reference: 'u-1', firstName: ' ', email: 'x', phone: '1', lastName: 5 },
      [
        'firstName must be 1 to 100 characters without line breaks, control or invisible characters',
        'lastName must be a string',
        'email must be a valid e-mail address of at most 254 characters',
        'phone must be a Nigerian number (0XXXXXXXXXX, 234…, +234…) or an international number with +',
      ],
    ],
  ])('refuses %j by the names of the fields', async (request, expected) => {
    const { status, body } = await service.post('updateVirtualAccount/', business.live, request)
    expect(status).toBe(422)
    const faults = body.errors.map(
      (each: Record<string, string>) => `${each['field']} ${each['message']}`,
    )
    expect(faults).toEqual(expected)
  })
})

describe('closeVirtualAccount/', () => {
  test('closes once, with one event and one audit entry, and credits nothing more', async () => {
    const { reference, number } = await openByKey(service, business.test, { reference: 'c-1' })
    const closed = await data(service, business.test, 'closeVirtualAccount', { reference: 'c-1' })
    expect(closed).toMatchObject({ reference, status: 'CLOSED', merchant_reference: 'c-1' })
    const [entry] = await audited(service, business.id, 1)
    expect(entry).toMatchObject({
      action: 'account.close',
      by: `secret_key ${keyIdOf(business.test)}`,
      details: { reference, accountNumber: number },
    })
    expect(await data(service, business.test, 'closeVirtualAccount', { reference })).toEqual(closed)
    expect(await audited(service, business.id, 1)).toEqual([entry])
    await waitFor(async () => {
      const { events } = await data(service, business.test, 'listEvents')
      const kinds = events.filter((each: { data: { reference?: string } }) => {
        return each.data.reference === reference
      })
      expect(kinds.map((each: { event: string }) => each.event)).toEqual([
        'ACCOUNT_CREATED',
        'ACCOUNT_CLOSED',
      ])
    })
    await expect(
      service.client(SandboxService).simulateTransfer({ accountNumber: number, amountMinor: 1n }),
    ).rejects.toThrow('No open account has this number')
  })
})

describe('listVirtualAccounts/', () => {
  test('lists the accounts of the business and mode in pages, newest first, by status', async () => {
    const owner = await scopedBusiness(service)
    const made: string[] = []
    for (const reference of ['l-1', 'l-2', 'l-3']) {
      made.unshift((await openByKey(service, owner.live, { reference })).reference)
    }
    await openByKey(service, owner.test, { reference: 'l-1' })
    await data(service, owner.live, 'closeVirtualAccount', { reference: 'l-2' })
    const list = (request: object) =>
      data(service, owner.live, 'listVirtualAccounts', { ...request })
    const references = (page: { accounts: { reference: string }[] }) =>
      page.accounts.map(({ reference }) => reference)
    const first = await list({ pageSize: 2 })
    expect(references(first)).toEqual(made.slice(0, 2))
    // The token may be sent by the name by which it was returned.
    const second = await list({ pageSize: 2, page_token: first.next_page_token })
    expect(references(second)).toEqual(made.slice(2))
    expect(second.next_page_token).toBeUndefined()
    const third = await list({ pageSize: 2, pageToken: first.next_page_token })
    expect(third).toEqual(second)
    expect(references(await list({ status: 'CLOSED' }))).toEqual([made[1]])
    expect(references(await list({ status: 'PENDING' }))).toEqual([])
    expect((await list({ status: 'ACTIVE' })).accounts[0]).toMatchObject({
      reference: made[0],
      merchant_reference: 'l-3',
      status: 'ACTIVE',
      account: [{ bank_id: '9PSB' }],
      meta: { firstName: 'Ada', phone: '08012345678' },
    })
    expect((await data(service, stranger.live, 'listVirtualAccounts')).accounts).toEqual([])
  })
})

test('an account of another business is unknown, by either reference, and stays as it is', async () => {
  const { reference } = await openByKey(service, business.live, { reference: 'mine' })
  for (const name of [reference, 'mine']) {
    for (const [path, request] of [
      ['updateVirtualAccount', { reference: name, firstName: 'Eve' }],
      ['closeVirtualAccount', { reference: name }],
    ] as const) {
      expect(await failure(service, stranger.live, path, request)).toEqual([404, 'not_found'])
      expect(await failure(service, business.test, path, request)).toEqual([404, 'not_found'])
    }
  }
  const { accounts } = await data(service, business.live, 'listVirtualAccounts', { pageSize: 1 })
  expect(accounts[0]).toMatchObject({ reference, status: 'ACTIVE', meta: { firstName: 'Ada' } })
})

test('payments are shown with the changed details of the customer', async () => {
  const { number } = await openByKey(service, business.test, { reference: 'p-1' })
  const { sessionId } = await service
    .client(SandboxService)
    .simulateTransfer({ accountNumber: number, amountMinor: 100n })
  await data(service, business.test, 'updateVirtualAccount', {
    reference: 'p-1',
    firstName: 'Adah',
  })
  const shown = await data(service, business.test, 'getTransaction', { session_id: sessionId })
  expect(shown.customer).toBe('Adah Obi')
  const { transaction } = await service
    .client(TransactionService)
    .getTransaction({ businessId: business.id, sessionId })
  expect(transaction!.customerName).toBe('Adah Obi')
})
