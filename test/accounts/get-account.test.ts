import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { getAccount } from '../../src/accounts/get-account.ts'
import { creation } from '../protocols/rest/rest.ts'
import { insertBusiness } from '../settlement/fixture.ts'
import { useDatabase } from '../support/database.ts'
import { useService } from '../support/service.ts'

const db = useDatabase(2)
const service = useService({}, undefined, db)

test('an account is found by either reference, and only by its own business and mode', async () => {
  const { durablePool } = db.database
  const [own, other] = [await insertBusiness(durablePool), await insertBusiness(durablePool)]
  const { rows } = await durablePool.query('select reference from account where business_id = $1', [
    own.id,
  ])
  const [{ reference }] = rows
  const find = (businessId: string, given: string, live: boolean | undefined = undefined) =>
    getAccount(durablePool, { businessId, live, reference: given })
  for (const live of [undefined, true]) {
    expect(await find(own.id, reference, live)).toMatchObject({ businessId: own.id, reference })
  }
  // Both businesses have an account with this reference of their own.
  for (const { id } of [own, other]) {
    expect(await find(id, 'order-1')).toMatchObject({ businessId: id })
  }
  const unknown = { reason: 'not_found' }
  await expect(find(other.id, reference)).rejects.toMatchObject(unknown)
  await expect(find(own.id, reference, false)).rejects.toMatchObject(unknown)
  await expect(find(own.id, 'order-1', false)).rejects.toMatchObject(unknown)
})

describe('a reference of the business that could be one of Inflow', () => {
  let shop: { id: string; key: string }

  beforeAll(async () => {
    shop = await service.business()
  })

  const open = (reference: string) =>
    service.post('generateVirtualAccount/', shop.key, creation({ reference }))
  const message =
    'must not have the form of the references that Inflow assigns: R- and 16 or more characters'

  test('is refused, so that no reference names two accounts', async () => {
    const first = await open('order-1')
    expect(first.status).toBe(200)
    const assigned = fc.stringMatching(/^R-[34679ACDEFGHJKMNPQRTWXY]{16,98}$/)
    const references = [first.body.data.reference, ...fc.sample(assigned, 20)]
    for (const reference of references) {
      const { status, body } = await open(reference)
      expect([status, body.errors]).toEqual([422, [{ field: 'reference', message }]])
      const { email, phone, firstName, lastName } = creation()
      const request = { businessId: shop.id, bank: Bank.BANK_9PSB, reference, live: false }
      const call = service
        .client(AccountService)
        .createAccount({ ...request, email, phone, firstName, lastName })
      await expect(call).rejects.toThrow('reference')
    }
    const shown = await service.post('getVirtualAccount/', shop.key, {
      reference: first.body.data.reference,
    })
    expect(shown.body.data.reference).toBe(first.body.data.reference)
  })

  test('is accepted if it only begins like one', async () => {
    const references = [
      'R-',
      'R-1',
      'R-2026-000000000000001',
      'r-34679acdefghjkmn',
      'R-34679ACDEFGHJKM',
      'R-34679ACDEFGHJKMO',
      'XR-34679ACDEFGHJKMN',
    ]
    for (const reference of references)
      expect([reference, (await open(reference)).status]).toEqual([reference, 200])
  })

  test('still opens its account where it is from before', async () => {
    const [one, two] = [await open('kept-1'), await open('kept-2')]
    const reference: string = one.body.data.reference
    const update = 'update account set merchant_reference = $1 where reference = $2'
    await db.database.durablePool.query(update, [reference, two.body.data.reference])
    const again = await open(reference)
    expect([again.status, again.body.data.reference]).toEqual([200, two.body.data.reference])
    // It names the account to which it was assigned.
    const { body } = await service.post('getVirtualAccount/', shop.key, { reference })
    expect(body.data.account).toEqual(one.body.data.account)
  })
})
