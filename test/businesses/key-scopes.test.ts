import { beforeAll, describe, expect, test } from 'vitest'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { ThirdPartyService } from '../../gen/inflow/thirdparty/v2/third_party_service_pb.ts'
import { creation } from '../protocols/rest/rest.ts'
import { useSharedService } from '../support/service.ts'

const service = useSharedService()
const businesses = () => service.client(BusinessService)

let businessId: string
let unscoped: string

beforeAll(async () => {
  const { id, key } = await service.business()
  businessId = id
  unscoped = key
})

describe('a key with scopes', () => {
  test('does what they allow, and is refused the rest with a text that names the scope', async () => {
    const { key, secretKey } = await businesses().issueKey({
      businessId,
      scopes: ['accounts:create', 'balances:read'],
    })
    expect(key!.scopes).toEqual(['accounts:create', 'balances:read'])
    const created = await service.post('generateVirtualAccount/', secretKey, creation())
    expect(created.status).toBe(200)
    expect((await service.post('getBalance/', secretKey, {})).status).toBe(200)
    const refused = await service.post('getVirtualAccount/', secretKey, { reference: 'order-1' })
    expect(refused.status).toBe(403)
    expect(refused.body).toMatchObject({
      status: false,
      code: 'permission_denied',
      message: 'The key lacks the scope accounts:read',
    })
    await expect(service.client(ThirdPartyService, secretKey).listEvents({})).rejects.toMatchObject(
      { rawMessage: 'The key lacks the scope events:read' },
    )
  })
})

test('a key without scopes keeps what keys could always do', async () => {
  const { keys } = await businesses().listKeys({ businessId })
  expect(keys.at(-1)!.scopes).toEqual([])
  const calls = {
    generateVirtualAccount: creation({ reference: 'order-2' }),
    getVirtualAccount: { reference: 'order-2' },
    listTransactions: {},
    listEvents: {},
    getBalance: {},
  }
  for (const [path, body] of Object.entries(calls)) {
    expect([path, (await service.post(`${path}/`, unscoped, body)).status]).toEqual([path, 200])
  }
  for (const path of ['closeVirtualAccount', 'createWebhook', 'listWebhooks', 'simulatePayment']) {
    expect([path, (await service.post(`${path}/`, unscoped, {})).status]).toEqual([path, 403])
  }
})
