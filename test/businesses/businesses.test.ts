import { describe, expect, test } from 'vitest'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { OverviewService } from '../../gen/inflow/overview/v1/overview_service_pb.ts'
import { creation, until } from '../protocols/rest/rest.ts'
import { startInstance } from '../support/instance.ts'
import { issueToken, postRest, useSharedService } from '../support/service.ts'

const service = useSharedService()

const businesses = (token?: string) => service.client(BusinessService, token)

describe('the prefix of account names', () => {
  test.each([
    ['Acme', '', 'Acme'],
    ['Acme Stores Limited', 'Acme', 'Acme'],
    ['A/B   C', '', 'A B C'],
    ['/', '', 'Inflow'],
    ['😀'.repeat(60), '', '😀'.repeat(40)],
    [`${'x'.repeat(39)} y`, '', 'x'.repeat(39)],
  ])('business "%s" with alias "%s": "%s"', async (name, alias, expected) => {
    const { business, secretKey } = await businesses().createBusiness({ name, alias })
    expect(business).toMatchObject({ name, alias: expected })
    const { body } = await service.post('generateVirtualAccount/', secretKey, creation())
    expect(body.data.account[0].account_name).toBe(`${expected}/Ada Obi`)
  })
})

describe('updating a business', () => {
  const nameOn = async (httpUrl: string, key: string, reference: string): Promise<string> => {
    const request = creation({ reference })
    const { body } = await postRest(httpUrl, key, 'generateVirtualAccount/', request)
    return body.data.account[0].account_name
  }

  test('applies a new alias to new accounts at every instance, and to no old ones', async () => {
    const other = await startInstance(service.url)
    try {
      const { id, key } = await service.business('Before')
      for (const [index, { httpUrl }] of [service, other].entries()) {
        expect(await nameOn(httpUrl, key, `old-${index}`)).toBe('Before/Ada Obi')
      }
      const { business } = await businesses().updateBusiness({ businessId: id, alias: 'After' })
      expect(business).toMatchObject({ id, name: 'Before', alias: 'After' })
      let made = 0
      for (const { httpUrl } of [service, other]) {
        await until(
          () => nameOn(httpUrl, key, `new-${made++}`),
          (name) => name === 'After/Ada Obi',
        )
      }
      for (const reference of ['old-0', 'old-1']) {
        const { body } = await service.post('getVirtualAccount/', key, { reference })
        expect(body.data.account[0].account_name).toBe('Before/Ada Obi')
      }
    } finally {
      await other.close()
    }
  })
})

test('businesses are found by the beginning of their name or alias, and by id', async () => {
  const create = async (name: string, alias: string) =>
    (await businesses().createBusiness({ name, alias })).business!.id
  const oja = await create('Zọjà Market', 'Zoja')
  const ojamart = await create('Mart', 'ZOJAMART')
  const other = await create('100%_done\\', 'Other')
  const find = async (query: string, token?: string, pageSize = 0) => {
    const found = await businesses(token).listBusinesses({ query, pageSize })
    expect(found.nextPageToken).toBe('')
    return found.businesses.map(({ id }) => id)
  }
  expect(await find('zoja')).toEqual([oja, ojamart])
  expect(await find('zọjà m')).toEqual([oja])
  expect(await find('MART')).toEqual([ojamart])
  expect(await find('zoja', undefined, 1)).toEqual([oja])
  expect(await find(other)).toEqual([other])
  // The search across all domains finds the same.
  const { results } = await service.client(OverviewService).search({ query: 'zojA' })
  expect(results.map(({ id }) => id)).toEqual([oja, ojamart])
  // No character has a meaning of its own.
  expect(await find('100%_')).toEqual([other])
  expect(await find('%')).toEqual([])
  expect(await find('market')).toEqual([])

  const { secret } = await issueToken(service, ['read'], [oja])
  expect(await find('zoja', secret)).toEqual([oja])
  expect(await find(other, secret)).toEqual([])

  const named = await businesses().listBusinesses({ businessIds: [oja, other, 'biz_none'] })
  expect(named.businesses.map(({ name }) => name)).toEqual(['100%_done\\', 'Zọjà Market'])
  const own = await businesses(secret).listBusinesses({ businessIds: [oja, other] })
  expect(own.businesses.map(({ id }) => id)).toEqual([oja])
  await expect(
    businesses().listBusinesses({ query: 'x', pageToken: 'WyJiaXoiXQ' }),
  ).rejects.toThrow(/Invalid request/)
})
