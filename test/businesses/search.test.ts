import { expect, test } from 'vitest'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { OverviewService } from '../../gen/inflow/overview/v1/overview_service_pb.ts'
import { useService } from '../support/service.ts'

const service = useService()
const businesses = (token?: string) => service.client(BusinessService, token)

test('businesses are found by the beginning of their name or alias, and by id', async () => {
  const create = async (name: string, alias: string) =>
    (await businesses().createBusiness({ name, alias })).business!.id
  const oja = await create('Ọjà Market', 'Oja')
  const ojamart = await create('Mart', 'OJAMART')
  const other = await create('100%_done\\', 'Other')
  const find = async (query: string, token?: string, pageSize = 0) => {
    const found = await businesses(token).listBusinesses({ query, pageSize })
    expect(found.nextPageToken).toBe('')
    return found.businesses.map(({ id }) => id)
  }
  expect(await find('oja')).toEqual([oja, ojamart])
  expect(await find('ọjà m')).toEqual([oja])
  expect(await find('MART')).toEqual([ojamart])
  expect(await find('oja', undefined, 1)).toEqual([oja])
  expect(await find(other)).toEqual([other])
  // The search across all domains finds the same.
  const { results } = await service.client(OverviewService).search({ query: 'ojA' })
  expect(results.map(({ id }) => id)).toEqual([oja, ojamart])
  // No character has a meaning of its own.
  expect(await find('100%_')).toEqual([other])
  expect(await find('%')).toEqual([])
  expect(await find('market')).toEqual([])

  const request = { name: 'portal', scopes: ['read'], businessIds: [oja] }
  const { secret } = await service.client(AdminService).issueToken(request)
  expect(await find('oja', secret)).toEqual([oja])
  expect(await find(other, secret)).toEqual([])

  const named = await businesses().listBusinesses({ businessIds: [oja, other, 'biz_none'] })
  expect(named.businesses.map(({ name }) => name)).toEqual(['100%_done\\', 'Ọjà Market'])
  const own = await businesses(secret).listBusinesses({ businessIds: [oja, other] })
  expect(own.businesses.map(({ id }) => id)).toEqual([oja])
  await expect(
    businesses().listBusinesses({ query: 'x', pageToken: 'WyJiaXoiXQ' }),
  ).rejects.toThrow(/Invalid request/)
})
