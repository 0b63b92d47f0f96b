import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import { creation } from '../protocols/rest/rest.ts'
import { useSharedService } from '../support/service.ts'
import { openByKey } from '../thirdparty/scene.ts'

const service = useSharedService()

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
