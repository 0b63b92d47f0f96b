import { Code, createClient } from '@connectrpc/connect'
import { createConnectTransport } from '@connectrpc/connect-node'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { AdminService } from '../../gen/inflow/admin/v1/admin_service_pb.ts'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { ThirdPartyService } from '../../gen/inflow/thirdparty/v2/third_party_service_pb.ts'
import { asJson, send } from '../protocols/rest/rest.ts'
import { type Instance, startInstance } from '../support/instance.ts'
import { ADMIN_TOKEN, useSharedService } from '../support/service.ts'

const service = useSharedService()
const businesses = () => service.client(BusinessService)
/** An instance that trusts this machine as a proxy. */
let proxied: Instance

beforeAll(async () => {
  proxied = await startInstance(service.url, { trustedProxies: ['127.0.0.0/8'] })
})

afterAll(() => proxied?.close())

async function keyFor(...allowedCidrs: string[]) {
  const { id } = await service.business()
  const { key, secretKey } = await businesses().issueKey({ businessId: id, allowedCidrs })
  return { keyId: key!.id, secretKey }
}

/** Calls over REST as a proxy that forwards for an address. */
async function from(at: { httpUrl: string }, secretKey: string, forwardedFor?: string) {
  const response = await send(at.httpUrl, {
    path: '/v2/thirdparty/listEvents/',
    headers: {
      ...asJson(secretKey),
      ...(forwardedFor !== undefined && { 'x-forwarded-for': forwardedFor }),
    },
    body: '{}',
  })
  return { status: response.status, code: JSON.parse(response.text).code as string | undefined }
}

describe('a key that is allowed from some addresses', () => {
  test('is accepted from them over every protocol', async () => {
    const { secretKey } = await keyFor('127.0.0.0/8')
    expect(await from(service, secretKey)).toEqual({ status: 200, code: undefined })
    for (const client of [service.client, service.connectClient]) {
      expect(await client(ThirdPartyService, secretKey).listEvents({})).toMatchObject({
        status: true,
      })
    }
  })

  test('is refused from other addresses over every protocol, with the same reason', async () => {
    const { secretKey } = await keyFor('203.0.113.0/24', '2001:db8::/32')
    expect(await from(service, secretKey)).toEqual({ status: 403, code: 'address_not_allowed' })
    for (const client of [service.client, service.connectClient]) {
      const refused = client(ThirdPartyService, secretKey).listEvents({})
      await expect(refused).rejects.toMatchObject({ code: Code.PermissionDenied })
    }
  })
})

describe('the address of a caller behind a proxy', () => {
  test('is the address that a trusted proxy states, over both protocols of the HTTP server', async () => {
    const { secretKey } = await keyFor('203.0.113.0/24')
    expect(await from(proxied, secretKey, '203.0.113.9')).toMatchObject({ status: 200 })
    expect(await from(proxied, secretKey, '::ffff:203.0.113.9')).toMatchObject({ status: 200 })
    expect(await from(proxied, secretKey, '198.51.100.1')).toMatchObject({ status: 403 })
    expect(await from(proxied, secretKey)).toMatchObject({ status: 403 })
    const transport = createConnectTransport({ baseUrl: proxied.httpUrl, httpVersion: '1.1' })
    const headers = { authorization: `Bearer ${secretKey}`, 'x-forwarded-for': '203.0.113.9' }
    const client = createClient(ThirdPartyService, transport)
    expect(await client.listEvents({}, { headers })).toMatchObject({ status: true })
  })

  test('is the last address that is no trusted proxy: addresses that the caller adds are ignored', async () => {
    const { secretKey } = await keyFor('203.0.113.0/24')
    const forged = '203.0.113.9, 198.51.100.1'
    expect(await from(proxied, secretKey, forged)).toMatchObject({ status: 403 })
    expect(await from(proxied, secretKey, '203.0.113.9, 127.0.0.9')).toMatchObject({ status: 200 })
  })

  test('is the proxy itself if it states no address, also in the audit log', async () => {
    const { secretKey } = await keyFor('127.0.0.0/8')
    const { id: businessId } = await service.business()
    for (const text of [
      'nonsense',
      '127.1',
      '203.0.113.9:443',
      '203.0.113.9, nonsense, 127.0.0.9',
      'x'.repeat(500),
      '\u00e9, , ,%',
    ]) {
      expect(await from(proxied, secretKey, text), text).toMatchObject({ status: 200 })
      const { status } = await send(proxied.httpUrl, {
        path: '/inflow.business.v1.BusinessService/IssueKey',
        headers: { ...asJson(ADMIN_TOKEN), 'x-forwarded-for': text },
        body: JSON.stringify({ businessId }),
      })
      expect(status).toBe(200)
    }
    const { entries } = await service
      .client(AdminService)
      .listAuditEntries({ businessId, pageSize: 6 })
    for (const { action, address } of entries)
      expect(`${action} ${address}`).toMatch(/^key.issue 127\./)
  })
})
