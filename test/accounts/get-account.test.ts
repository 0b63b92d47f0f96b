import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import { getAccount } from '../../src/accounts/get-account.ts'
import { creation } from '../protocols/rest/rest.ts'
import { useSharedService } from '../support/service.ts'
import { openByKey } from '../thirdparty/scene.ts'

const service = useSharedService()

test('an account is found by either reference, and only by its own business and mode', async () => {
  const { durablePool } = service.database
  const [own, other] = [await service.business(), await service.business()]
  const { reference } = await openByKey(service, own.key)
  await openByKey(service, other.key)
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
  let key: string

  beforeAll(async () => {
    key = (await service.business()).key
  })

  const open = (reference: string) =>
    service.post('generateVirtualAccount/', key, creation({ reference }))

  test('is refused, so that no reference names two accounts', async () => {
    const assigned = fc.stringMatching(/^R-[34679ACDEFGHJKMNPQRTWXY]{16,98}$/)
    for (const reference of fc.sample(assigned, 5)) {
      const { status, body } = await open(reference)
      expect([status, body.errors[0].field]).toEqual([422, 'reference'])
    }
  })

  test('is accepted if it only begins like one', async () => {
    for (const reference of [
      'R-2026-000000000000001',
      'R-34679ACDEFGHJKM',
      'XR-34679ACDEFGHJKMN',
    ]) {
      expect([reference, (await open(reference)).status]).toEqual([reference, 200])
    }
  })

  test('still opens its account where it is from before', async () => {
    const [one, two] = [
      await openByKey(service, key, { reference: 'kept-1' }),
      await open('kept-2'),
    ]
    const { reference } = one
    const update = 'update account set merchant_reference = $1 where reference = $2'
    await service.database.durablePool.query(update, [reference, two.body.data.reference])
    const again = await open(reference)
    expect([again.status, again.body.data.reference]).toEqual([200, two.body.data.reference])
    // It names the account to which it was assigned.
    const { body } = await service.post('getVirtualAccount/', key, { reference })
    expect(body.data.account[0].account_number).toBe(one.number)
  })
})
