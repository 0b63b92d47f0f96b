import { Code, createClient } from '@connectrpc/connect'
import { createConnectTransport, createGrpcTransport } from '@connectrpc/connect-node'
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

/** Issues a key that may only be used from these addresses, since it moves money. */
async function payoutKey(...allowedCidrs: string[]) {
  const { id: businessId } = await service.business()
  const request = { businessId, scopes: ['payouts'], allowedCidrs }
  return (await businesses().issueKey(request)).secretKey
}

/** The paths of a method in both protocols of the HTTP server. */
const PATHS = [
  '/v2/thirdparty/listBanks/',
  '/inflow.thirdparty.v2.ThirdPartyService/ListBanks',
] as const

async function listBanks(
  at: { httpUrl: string },
  key: string,
  headers: object,
  path: (typeof PATHS)[number] = PATHS[0],
) {
  const given = { ...asJson(key), ...headers }
  return (await send(at.httpUrl, { path, headers: given, body: '{}' })).status
}

test('the address of a caller is the proxy itself if it states no address, also in the audit log', async () => {
  const key = await payoutKey('127.0.0.0/8')
  const { id: businessId } = await service.business()
  for (const text of [
    'nonsense',
    '127.1',
    '203.0.113.9:443',
    '203.0.113.9, nonsense, 127.0.0.9',
    'x'.repeat(500),
    '\u00e9, , ,%',
  ]) {
    expect(await listBanks(proxied, key, { 'x-forwarded-for': text }), text).toBe(200)
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

describe('a key that moves money', () => {
  const FORGED = {
    'x-forwarded-for': '203.0.113.9',
    forwarded: 'for=203.0.113.9;by=203.0.113.9',
    'x-real-ip': '203.0.113.9',
    'x-client-ip': '203.0.113.9',
    'true-client-ip': '203.0.113.9',
  }

  test('is refused whatever its caller states of its own address, over every protocol', async () => {
    const key = await payoutKey('203.0.113.0/24')
    const headers = { ...FORGED, authorization: `Bearer ${key}` }
    const transports = [
      createGrpcTransport({ baseUrl: service.grpcUrl }),
      // It trusts this machine, but not without the PROXY protocol.
      createGrpcTransport({ baseUrl: proxied.grpcUrl }),
      createConnectTransport({ baseUrl: service.httpUrl, httpVersion: '1.1' }),
    ]
    for (const transport of transports) {
      const refused = createClient(ThirdPartyService, transport).listBanks({}, { headers })
      await expect(refused).rejects.toMatchObject({ code: Code.PermissionDenied })
    }
    expect(await listBanks(service, key, FORGED)).toBe(403)
    expect(await listBanks(proxied, key, { ...FORGED, 'x-forwarded-for': '' })).toBe(403)
    expect(await listBanks(proxied, key, {})).toBe(403)
  })

  test.each([
    ['203.0.113.9', 200],
    ['198.51.100.1', 403],
    // What the trusted proxy adds comes last.
    ['203.0.113.9, 198.51.100.1', 403],
    [['203.0.113.9', '198.51.100.1'], 403],
    ['203.0.113.9, ::ffff:198.51.100.1', 403],
    ['198.51.100.1, 203.0.113.9', 200],
    ['203.0.113.9, 127.0.0.9', 200],
    ['203.0.113.9, ::ffff:127.0.0.9', 200],
    ['::ffff:203.0.113.9', 200],
    ['::ffff:cb00:7109', 200],
    // Nothing but an address is one.
    ['203.0.113.9:443', 403],
    ['203.0.113.9 198.51.100.1', 403],
    ['203.0.113.9%eth0', 403],
    ['203.0.113.009', 403],
    ['0xcb.0.113.9', 403],
    ['"203.0.113.9"', 403],
    ['203.0.113.9,', 403],
    ['', 403],
    // Its translation by NAT64 is another address.
    ['64:ff9b::203.0.113.9', 403],
  ])('is used behind a trusted proxy that states %j: %i', async (stated, status) => {
    const headers = { 'x-forwarded-for': stated }
    for (const range of ['203.0.113.0/24', '::ffff:203.0.113.0/120']) {
      const key = await payoutKey(range)
      for (const path of PATHS) {
        expect(await listBanks(proxied, key, headers, path), `${range} at ${path}`).toBe(status)
      }
    }
  })
})
