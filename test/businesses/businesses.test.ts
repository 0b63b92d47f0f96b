import { describe, expect, test } from 'vitest'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { creation } from '../contract/rest.ts'
import { useService } from '../support/service.ts'

const service = useService()

const businesses = () => service.client(BusinessService)

describe('what account names begin with', () => {
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

test('businesses are listed newest first, page by page, each once', async () => {
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

test('a business is found by its id, to the letter', async () => {
  const { business } = await businesses().createBusiness({ name: 'Ọjà' })
  const found = await businesses().getBusiness({ businessId: business!.id })
  expect(found.business).toEqual(business)
})
