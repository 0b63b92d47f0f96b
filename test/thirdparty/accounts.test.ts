import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { SandboxService } from '../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { detailsText } from '../../src/accounts/account.ts'
import { encryptedAccounts } from '../../src/accounts/re-encrypt-accounts.ts'
import type { IdKind } from '../../src/banks/bank.ts'
import { keyIdOf } from '../../src/businesses/secret-key.ts'
import { createEncrypter } from '../../src/crypto/encryption.ts'
import { poolSizes } from '../../src/postgres/orm.ts'
import { creation } from '../protocols/rest/rest.ts'
import { MASTER_KEY, useSharedService } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'
import { audited, data, openByKey, type ScopedBusiness, scopedBusiness } from './scene.ts'

const service = useSharedService()
let business: ScopedBusiness

beforeAll(async () => {
  business = await scopedBusiness(service)
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
        ...account,
        ...facts,
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

  test('succeeds for more changes at once than the pool has connections', async () => {
    await openByKey(service, business.live, { reference: 'u-3' })
    const count = 2 * poolSizes(1).connectionsMax
    const changes = Array.from({ length: count }, async (_, index) => {
      const change = { reference: 'u-3', phone: `080${10_000_000 + index}` }
      return (await service.post('updateVirtualAccount/', business.live, change)).status
    })
    expect(await Promise.all(changes)).toEqual(Array(count).fill(200))
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

describe('upgradeVirtualAccount/', () => {
  const bvn = '22212345678'
  const upgrade = (key: string, body: object) => service.post('upgradeVirtualAccount/', key, body)
  const listByIdentity = async (businessId: string, idNumber: string) => {
    const { accounts } = await service.client(AccountService).listAccounts({ businessId, idNumber })
    return accounts.map(({ reference }) => reference)
  }

  test('attaches a BVN to the accounts of a customer that have none, by a key without scopes', async () => {
    const shop = await service.business()
    const open = async (reference: string, bank: object, email = 'up@example.com') =>
      openByKey(service, shop.key, { reference, email, ...bank })
    const first = await open('up-1', { bank: '9PSB' })
    await open('up-2', PALMPAY)
    const last = await open('up-3', { bank: 'PROVIDUS' })
    await open('up-4', { bank: 'PROVIDUS' }, 'another@example.com')

    const { status, body } = await upgrade(shop.key, { customer: 'up@example.com', bvn })
    expect([status, body.message]).toEqual([200, 'Account upgraded'])
    expect(body.data).toMatchObject({ reference: last.reference, customer: 'Ada Obi' })
    const shown = body.data.customer_accounts.accounts
    expect(shown.map((each: Record<string, string>) => each['merchant_reference'])).toEqual([
      'up-3',
      'up-2',
      'up-1',
    ])
    expect(JSON.stringify(body)).not.toContain(bvn)
    expect(await listByIdentity(shop.id, bvn)).toEqual([last.reference, first.reference])
    const entries = await audited(service, shop.id, 2)
    expect(entries.map(({ action, details }) => [action, details])).toEqual(
      [last, first].map(({ reference }) => [
        'account.attach_identity',
        { reference, idType: 'bvn' },
      ]),
    )
  })

  test('never replaces a number, and says whose it is', async () => {
    const { reference } = await openByKey(service, business.live, { reference: 'up-5', ...PALMPAY })
    const nin = (idNumber: string) => upgrade(business.live, { reference, idType: 'nin', idNumber })
    expect((await nin(PALMPAY.idNumber)).status).toBe(200)
    const other = await nin('12345678902')
    expect(other.status).toBe(422)
    expect(other.body.errors).toEqual([
      { field: 'idNumber', message: `cannot be attached: ${reference} has another nin` },
    ])
    const kind = await upgrade(business.live, { reference: 'up-5', bvn })
    expect(kind.body.errors).toEqual([
      { field: 'bvn', message: `cannot be attached: ${reference} has a nin` },
    ])
  })

  test('attaches to all accounts of the customer or to none', async () => {
    const email = 'all-or-none@example.com'
    await openByKey(service, business.live, { reference: 'up-6', email })
    await openByKey(service, business.live, { reference: 'up-7', email })
    expect((await upgrade(business.live, { reference: 'up-7', bvn })).status).toBe(200)
    const request = { customer: email, bvn: '22212345679' }
    expect((await upgrade(business.live, request)).body.errors).toMatchObject([{ field: 'bvn' }])
    expect(await listByIdentity(business.id, '22212345679')).toEqual([])
  })

  test('lets one of several numbers win that are attached at once', async () => {
    const { reference } = await openByKey(service, business.live, { reference: 'up-8' })
    const numbers = Array.from({ length: 8 }, (_, index) => `3331234567${index}`)
    const answers = await Promise.all(
      numbers.map((number) => upgrade(business.live, { reference, bvn: number })),
    )
    const won = numbers.filter((_, index) => answers[index]?.status === 200)
    expect(won).toHaveLength(1)
    expect(await listByIdentity(business.id, won[0]!)).toEqual([reference])
  })

  test('a creation is repeated with the identity or without, whatever changed and rotated since', async () => {
    const identityKind = fc.constantFrom('nin' as const, 'bvn' as const)
    interface Created {
      readonly idType?: IdKind
      readonly idNumber?: string
    }
    const identity = fc.record({
      idType: identityKind,
      idNumber: fc.constantFrom('10000000001', '10000000002'),
    })
    const step = fc.oneof(
      fc.record({ path: fc.constant('upgradeVirtualAccount/'), body: identity }),
      fc.record({
        path: fc.constant('updateVirtualAccount/'),
        body: fc.record({ lastName: fc.constantFrom('Obi', 'Ade') }),
      }),
      fc.constant('rotation' as const),
    )
    type Step = typeof step extends fc.Arbitrary<infer Each> ? Each : never
    let count = 0
    /** Stores an account as earlier versions did: with a kind although it has no number. */
    const storeLoneKind = async (reference: string, idType: IdKind) => {
      const { durablePool } = service.database
      const key = [business.id, reference]
      const owned = 'business_id = $1 and merchant_reference = $2'
      const { rows } = await durablePool.query(
        `select bank, first_name, last_name, email, phone from account where ${owned}`,
        key,
      )
      const [{ first_name: firstName, last_name: lastName, ...rest }] = rows
      const stored = { ...rest, firstName, lastName, idType, idNumber: undefined }
      const hash = createEncrypter(MASTER_KEY).fingerprint(detailsText(stored))
      const text = `update account set id_type = $3, details_hash = $4 where ${owned}`
      await durablePool.query(text, [...key, idType, hash])
    }
    const run = async (created: Created, isOld: boolean, steps: readonly Step[]) => {
      const reference = `model ${++count}`
      const requestOf = (more: object) => creation({ reference, bank: '9PSB', ...more })
      const repeat = async (more: object) => {
        const answer = await service.post('generateVirtualAccount/', business.live, requestOf(more))
        return answer.status
      }
      expect(await repeat(created)).toBe(200)
      const hadNone = created.idNumber === undefined
      if (hadNone && created.idType && isOld) await storeLoneKind(reference, created.idType)
      let [attached, lastName]: [object, string] = [hadNone ? {} : created, 'Obi']
      for (const each of steps) {
        if (each === 'rotation') await rotateThereAndBack()
        else {
          const { status } = await service.post(each.path, business.live, {
            reference,
            ...each.body,
          })
          if ('lastName' in each.body) lastName = each.body.lastName
          else {
            const fits =
              Object.keys(attached).length === 0 ||
              JSON.stringify(attached) === JSON.stringify(each.body)
            expect(status).toBe(fits ? 200 : 422)
            if (fits) attached = each.body
          }
        }
        expect(await repeat({ lastName, ...attached })).toBe(200)
        expect(await repeat({ lastName, ...created })).toBe(200)
        expect(await repeat({ lastName })).toBe(hadNone ? 200 : 409)
        expect(await repeat({ lastName, idType: 'nin', idNumber: '10000000009' })).toBe(409)
      }
    }
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(fc.constant({}), identity, fc.record({ idType: identityKind })),
        fc.boolean(),
        fc.array(step, { minLength: 1, maxLength: 5 }),
        run,
      ),
      { numRuns: 20 },
    )
  })

  test.each([
    [{}, ['reference is required, or customer is', 'idNumber is required, or bvn is']],
    [
      { customer: 'Ada', bvn: '1' },
      [
        'bvn must be 11 digits',
        'customer must be the e-mail address of a customer, of at most 254 characters',
      ],
    ],
    [
      { reference: 'up-5', idNumber: bvn, bvn },
      ['bvn must not be given together with idNumber', 'idType is required with idNumber'],
    ],
    [
      { reference: 'up-5', idType: 'pan', idNumber: 'x' },
      ['idType must be nin or bvn', 'idNumber must be 11 digits'],
    ],
  ])('refuses %j by the names of the fields', async (request, expected) => {
    const { status, body } = await upgrade(business.live, request)
    expect(status).toBe(422)
    const faults = body.errors.map(
      (each: Record<string, string>) => `${each['field']} ${each['message']}`,
    )
    expect(faults).toEqual(expected)
  })
})

/** Re-encrypts all accounts under another master key, and back for the service that runs. */
async function rotateThereAndBack() {
  const encrypted = encryptedAccounts(service.database)
  const keys = [Buffer.alloc(32, 9), MASTER_KEY] as const
  const next = createEncrypter(keys[0], [keys[1]])
  expect(await encrypted.reEncrypt(next, '', 1_000)).toMatchObject({ unreadable: [] })
  const back = createEncrypter(keys[1], [keys[0]])
  expect(await encrypted.reEncrypt(back, '', 1_000)).toMatchObject({ unreadable: [] })
}

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
