import { describe, expect, test } from 'vitest'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { creation, until } from '../protocols/rest/rest.ts'
import { startInstance } from '../support/instance.ts'
import { useSharedService } from '../support/service.ts'

const service = useSharedService()

const businesses = () => service.client(BusinessService)

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

test('lists each business once, newest first, over all pages', async () => {
  const made: string[] = []
  for (let index = 0; index < 12; index++) made.unshift((await service.business()).id)
  const listed: string[] = []
  let pageToken = ''
  do {
    const page = await businesses().listBusinesses({ pageSize: 5, pageToken })
    listed.push(...page.businesses.map((business) => business.id))
    pageToken = page.nextPageToken
  } while (pageToken !== '')
  expect(listed.slice(0, made.length).sort()).toEqual([...made].sort())
  expect(new Set(listed).size).toBe(listed.length)
  expect(listed).toEqual([...listed].sort().reverse())
})

test('returns a business by its id', async () => {
  const { business } = await businesses().createBusiness({ name: 'Ọjà' })
  const found = await businesses().getBusiness({ businessId: business!.id })
  expect(found.business).toEqual(business)
})

describe('updating a business', () => {
  const nameOn = async (httpUrl: string, key: string, reference: string): Promise<string> => {
    const response = await fetch(`${httpUrl}/v2/thirdparty/generateVirtualAccount/`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', authorization: `Bearer ${key}` },
      body: JSON.stringify(creation({ reference })),
    })
    const { data } = (await response.json()) as { data: { account: { account_name: string }[] } }
    return data.account[0]!.account_name
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

  test('leaves absent fields unchanged', async () => {
    const { id } = await service.business('Before')
    const change = { businessId: id, name: 'Ọjà' }
    const { business } = await businesses().updateBusiness(change)
    expect(business).toMatchObject({ name: 'Ọjà', alias: 'Before' })
    expect((await businesses().updateBusiness({ businessId: id })).business).toEqual(business)
    expect((await businesses().getBusiness({ businessId: id })).business).toEqual(business)
  })

  test.each([
    [{ name: '' }, 'name'],
    [{ name: 'x'.repeat(101) }, 'name'],
    [{ alias: '' }, 'alias'],
    [{ alias: 'a/b' }, 'alias'],
    [{ alias: 'x'.repeat(41) }, 'alias'],
  ])('with %j is refused, and changes nothing', async (change, field) => {
    const { id } = await service.business('Before')
    const refused = businesses().updateBusiness({ businessId: id, ...change })
    await expect(refused).rejects.toThrow(`Invalid request: ${field}`)
    expect((await businesses().getBusiness({ businessId: id })).business).toMatchObject({
      name: 'Before',
      alias: 'Before',
    })
  })
})
