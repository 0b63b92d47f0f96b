import { connect, type Socket } from 'node:net'
import { createClient } from '@connectrpc/connect'
import { createGrpcTransport } from '@connectrpc/connect-node'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { AdminService } from '../../../gen/inflow/admin/v1/admin_service_pb.ts'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import type { Config } from '../../../src/config/config.ts'
import { captureLog } from '../../support/captured-log.ts'
import { makeCertificate, writeCertificate } from '../../support/certificate.ts'
import { useDatabase } from '../../support/database.ts'
import { temporaryFolder } from '../../support/folder.ts'
import { type Instance, startInstance } from '../../support/instance.ts'
import { startProxy } from '../../support/proxy.ts'
import { ADMIN_TOKEN } from '../../support/service.ts'
import { until } from '../rest/rest.ts'
import { openTestServer } from './fixture.ts'
import { proxyV1, proxyV2 } from './proxy-headers.ts'

const db = useDatabase()
const { log, lines: logged } = captureLog()
/** Takes this machine for its proxy. */
let proxied: Instance
/** Takes another machine for its proxy. */
let direct: Instance

const start = (trusted: string, overrides: Partial<Config> = {}) =>
  startInstance(
    db.url,
    { proxyProtocol: true, trustedProxies: [trusted], connectionsPerAddressMax: 3, ...overrides },
    log,
  )

beforeAll(async () => {
  const failed = { perSecond: 1 / 600, burst: 2 }
  const none = { key: undefined, token: undefined, address: undefined }
  proxied = await start('127.0.0.0/8', { rateLimits: { ...none, failed } })
  direct = await start('198.51.100.0/24')
})

afterAll(async () => {
  await proxied?.close()
  await direct?.close()
})

const portOf = ({ grpcUrl }: Instance) => Number(new URL(grpcUrl).port)

/** Starts a load balancer that begins each connection to the instance with some parts. @returns its URL */
const startBalancer = async (to: Instance, ...parts: readonly Buffer[]) =>
  (await startProxy(to.grpcUrl, undefined, parts)).through

const at = <S extends typeof AdminService | typeof BusinessService>(service: S, baseUrl: string) =>
  createClient(service, createGrpcTransport({ baseUrl }))
const as = (token: string) => ({ headers: { authorization: `Bearer ${token}` } })

/** Waits until a connection is closed or reset. */
const untilClosed = (socket: Socket) =>
  new Promise<void>((resolve) => {
    socket.on('error', () => undefined)
    socket.once('close', () => resolve())
  })

/** The address of the caller that created a business, as the audit log has it. */
async function auditedAddress(baseUrl: string, name: string): Promise<string | undefined> {
  await at(BusinessService, baseUrl).createBusiness({ name }, as(ADMIN_TOKEN))
  return addressOf(name)
}

async function addressOf(name: string): Promise<string | undefined> {
  const { rows } = await db.database.durablePool.query<{ address: string }>(
    'select address from audit_entry where details like $1',
    [`%"${name}"%`],
  )
  return rows[0]?.address
}

describe('a client of a proxy that speaks the PROXY protocol', () => {
  test.each([
    ['version 1', [proxyV1('203.0.113.7', 50_000)], '203.0.113.7'],
    ['version 2 over IPv6', [proxyV2('2001:db8::8', 50_000)], '2001:db8::8'],
    [
      'additions, byte by byte',
      [...proxyV2('203.0.113.10', 1, Buffer.alloc(500, 4))].map((byte) => Buffer.from([byte])),
      '203.0.113.10',
    ],
  ])('is known by its own address: %s', async (name, parts, address) => {
    expect(await auditedAddress(await startBalancer(proxied, ...parts), name)).toBe(address)
  })

  test('has failures and connections of its own, and its address is in the log', async () => {
    const attacker = await startBalancer(proxied, proxyV1('203.0.113.20', 1))
    const other = await startBalancer(proxied, proxyV2('203.0.113.21', 1))
    const list = (url: string, token: string) =>
      at(AdminService, url)
        .listTokens({}, as(token))
        .then(
          () => 'ok',
          (error: unknown) => String(error),
        )
    const tokenId = '0'.repeat(26)
    const wrong = `it_${tokenId}_${'A'.repeat(43)}`
    const seen: string[] = []
    for (let each = 0; each < 4; each++) seen.push(await list(attacker, wrong))
    expect(seen.join()).toContain('resource_exhausted')
    expect(await list(other, wrong)).toContain('unauthenticated')
    expect(await list(other, ADMIN_TOKEN)).toBe('ok')
    expect(logged).toContainEqual(
      expect.objectContaining({ address: '203.0.113.20', claimed_id: `tok_${tokenId}` }),
    )
    // Three connections are open from the attacker's address; a fourth is refused, another's is not.
    const opened = Array.from({ length: 3 }, () => connect(Number(new URL(attacker).port)))
    const fourth = connect(Number(new URL(attacker).port))
    await untilClosed(fourth)
    expect(await list(await startBalancer(proxied, proxyV1('203.0.113.22', 1)), ADMIN_TOKEN)).toBe(
      'ok',
    )
    for (const socket of opened) socket.destroy()
  })
})

describe('a connection from a trusted proxy', () => {
  test.each([
    ['without a header', Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')],
    ['with a line without end', Buffer.alloc(300, 'PROXY TCP4 ')],
  ])('%s is closed', async (_what, bytes) => {
    const socket = connect(portOf(proxied), '127.0.0.1')
    socket.write(bytes)
    await untilClosed(socket)
    expect(socket.bytesRead).toBe(0)
  })

  test('that sends nothing is closed in time', async () => {
    const isProxy = () => true
    const { server } = await openTestServer({
      options: { isProxy, grpcLimits: { proxyHeaderMs: 50 } },
    })
    for (const part of ['', 'PROXY TCP4']) {
      const socket = connect(server.port, '127.0.0.1')
      socket.write(part)
      await untilClosed(socket)
    }
    await until(
      async () => server.connections(),
      (open) => open === 0,
    )
  })
})

test('TLS begins after the header', async () => {
  const certificate = makeCertificate()
  const { TLS_CERT: cert, TLS_KEY: key } = writeCertificate(temporaryFolder(), certificate)
  const secured = await start('127.0.0.0/8', { tls: { cert, key, clientCa: undefined } })
  try {
    const url = await startBalancer(secured, proxyV2('203.0.113.40', 1))
    const nodeOptions = { ca: certificate.cert }
    const transport = createGrpcTransport({ baseUrl: url.replace('http:', 'https:'), nodeOptions })
    const client = createClient(BusinessService, transport)
    await client.createBusiness({ name: 'secured' }, as(ADMIN_TOKEN))
    expect(await addressOf('secured')).toBe('203.0.113.40')
  } finally {
    await secured.close()
  }
})

test('a peer that is no trusted proxy speaks for itself, and its header is not believed', async () => {
  expect(await auditedAddress(direct.grpcUrl, 'direct')).toBe('127.0.0.1')
  const socket = connect(portOf(direct), '127.0.0.1')
  socket.write(proxyV1('203.0.113.30', 1))
  socket.resume()
  await untilClosed(socket)
})
