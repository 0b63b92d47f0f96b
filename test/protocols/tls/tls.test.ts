import { rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { createServer as createPlainServer } from 'node:net'
import { join } from 'node:path'
import { connect, createServer, type TLSSocket } from 'node:tls'
import { createClient } from '@connectrpc/connect'
import { createConnectTransport, createGrpcTransport } from '@connectrpc/connect-node'
import { describe, expect, onTestFinished, test } from 'vitest'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { subscribe } from '../../../src/client/subscribe.ts'
import { callerEnv, runHere } from '../../cli/run-inflow.ts'
import { captureLog } from '../../support/captured-log.ts'
import { makeCertificate } from '../../support/certificate.ts'
import { writeEvents } from '../../support/events.ts'
import { temporaryFolder } from '../../support/folder.ts'
import { grpcClient } from '../../support/grpc-client.ts'
import { listen } from '../../support/listen.ts'
import { ADMIN_TOKEN, bearer } from '../../support/service.ts'
import { waitFor } from '../../support/wait-for.ts'
import { useTls } from './tls-fixture.ts'

const { log, lines: logged } = captureLog()
const tls = useTls(false, log)

const trusting = (baseUrl: string) => ({
  baseUrl,
  nodeOptions: { ca: tls.authority.cert },
  interceptors: [bearer(ADMIN_TOKEN)],
})
const grpc = () => createGrpcTransport(trusting(tls.grpcUrl))

/** A TLS client with its own ideas; it settles at the handshake. */
function handshake(url: string, options: object): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const port = Number(new URL(url).port)
    const socket = connect({ host: '127.0.0.1', port, ca: tls.authority.cert, ...options }, () =>
      resolve(socket),
    )
    socket.on('error', reject)
  })
}

/** The common name of the certificate that a server shows to a new connection. */
async function shownAt(url: string): Promise<string | undefined> {
  const socket = await handshake(url, { ALPNProtocols: [url === tls.grpcUrl ? 'h2' : 'http/1.1'] })
  const { subject } = socket.getPeerCertificate()
  socket.destroy()
  return String(subject.CN)
}

test('REST works over https, with HSTS; plain http on the same port does not', async () => {
  const answer = await new Promise<{ status: number; headers: Record<string, unknown> }>(
    (resolve, reject) => {
      const url = `${tls.httpUrl}/v2/thirdparty/getTransaction/`
      request(url, { method: 'POST', ca: tls.authority.cert }, (response) => {
        response.resume()
        resolve({ status: response.statusCode!, headers: response.headers })
      })
        .on('error', reject)
        .end('{}')
    },
  )
  expect(answer.status).toBe(401)
  expect(answer.headers['strict-transport-security']).toMatch(/^max-age=\d+/)
  await expect(fetch(tls.httpUrl.replace('https:', 'http:'))).rejects.toThrow()
})

test('Connect and gRPC clients work', async () => {
  const connect = createConnectTransport({ ...trusting(tls.httpUrl), httpVersion: '1.1' })
  const transports = [connect, grpc()]
  for (const transport of transports) {
    const answer = await createClient(BusinessService, transport).createBusiness({ name: 'Secure' })
    expect(answer.business?.id).toMatch(/^biz_/)
  }
})

test('a client that does not trust the authority refuses the service', async () => {
  await expect(grpcClient(BusinessService, tls.grpcUrl).listBusinesses({})).rejects.toMatchObject({
    rawMessage: expect.stringMatching(/certificate/),
  })
})

test.each([
  ['HTTP', () => tls.httpUrl, 'http/1.1'],
  ['gRPC', () => tls.grpcUrl, 'h2'],
])('%s: TLS 1.2 and 1.3 with its protocol, nothing older, no weak cipher', async (_, url, alpn) => {
  for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
    const limits = { minVersion: version, maxVersion: version, ALPNProtocols: [alpn] }
    const socket = await handshake(url(), limits)
    expect([socket.getProtocol(), socket.alpnProtocol]).toEqual([version, alpn])
    expect(socket.getCipher().name).toMatch(/^(ECDHE-|TLS_).*(GCM|POLY1305)/)
    socket.destroy()
  }
  const weak = [
    { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'ALL:@SECLEVEL=0' },
    { maxVersion: 'TLSv1.2', ciphers: 'AES128-SHA:ECDHE-ECDSA-AES128-SHA:@SECLEVEL=0' },
    { ALPNProtocols: ['spdy/3'] },
  ]
  for (const options of weak) await expect(handshake(url(), options)).rejects.toThrow()
})

test('the command line trusts INFLOW_CA, and says so without', async () => {
  const env = callerEnv(tls)
  const list = ['business', 'list']
  const given = await runHere(list, { ...env, INFLOW_CA: tls.path('authority') })
  const none = await runHere(list, env)
  const wrong = await runHere(list, { ...env, INFLOW_CA: '/nowhere.pem' })
  expect(given.code).toBe(0)
  expect(none).toEqual({
    code: 3,
    stdout: '',
    stderr: `error: no secure connection to ${tls.grpcUrl}: its certificate is of an authority that is not trusted: set INFLOW_CA to the file of that authority’s certificate\n`,
  })
  expect(wrong).toMatchObject({
    code: 2,
    stderr: 'error: INFLOW_CA names a file that cannot be read (ENOENT): /nowhere.pem\n',
  })
})

describe('the command line says in words why TLS failed', () => {
  const addresses = ['127.0.0.1']
  const self = makeCertificate({ commonName: 'Own', addresses })
  const authority = makeCertificate({ commonName: 'Authority', hosts: [], addresses: [] })
  const of = (options: object) => makeCertificate({ issuer: authority, ...options })
  const old = of({ addresses, fromMs: Date.now() - 2 * 86_400_000, toMs: Date.now() - 86_400_000 })
  const early = of({
    addresses,
    fromMs: Date.now() + 86_400_000,
    toMs: Date.now() + 2 * 86_400_000,
  })
  const elsewhere = of({ hosts: ['inflow.example'], addresses: ['192.0.2.1'] })

  test.each([
    ['self-signed', self, undefined, /its certificate is self-signed.*INFLOW_CA/],
    [
      'of an unknown authority',
      of({ addresses }),
      self,
      /authority that is not trusted.*INFLOW_CA/,
    ],
    ['expired', old, authority, /or that in INFLOW_CA, has expired/],
    ['not valid yet', early, authority, /is not valid yet/],
    ['for another host', elsewhere, authority, /is for another host.*INFLOW_CA/],
  ])('%s', async (_what, shown, trusted, expected) => {
    const server = createServer({ cert: shown.cert, key: shown.key, ALPNProtocols: ['h2'] })
    server.on('tlsClientError', () => undefined)
    onTestFinished(() => void server.close())
    const url = `https://127.0.0.1:${await listen(server)}`
    const ca = join(temporaryFolder(), 'ca.pem')
    if (trusted) writeFileSync(ca, trusted.cert)
    const env = {
      INFLOW_GRPC_URL: url,
      INFLOW_TOKEN: 'x',
      ...(trusted && { INFLOW_CA: ca }),
    }
    for (const command of [
      ['business', 'list'],
      ['events', 'tail'],
    ]) {
      const { code, stdout, stderr } = await runHere(command, env)
      expect({ code, stdout }).toEqual({ code: 3, stdout: '' })
      expect(stderr).toMatch(expected)
      expect(stderr).toMatch(/^error: no secure connection to https:[^\n]+\n$/)
      expect(stderr).not.toMatch(/OpenSSL|SSL routines|ERR_|[A-Z]+_[A-Z]+_CERT/)
    }
  })

  test('no TLS at all', async () => {
    const url = `https://127.0.0.1:${await listen(createPlain())}`
    const { stderr } = await runHere(['business', 'list'], callerEnv({ grpcUrl: url }, 'x'))
    expect(stderr).toMatch(/it does not speak TLS: use http:\/\//)
  })
})

/** A server that speaks HTTP/1.1 without TLS. */
function createPlain() {
  const server = createPlainServer((socket) => {
    socket.on('error', () => undefined)
    socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')
  })
  onTestFinished(() => void server.close())
  return server
}

/** The events of the instance, from the first. */
const readEvents = (onInterruption?: (error: Error) => void) =>
  subscribe({
    addresses: [new URL(tls.grpcUrl).host],
    token: ADMIN_TOKEN,
    tls: { ca: tls.authority.cert },
    start: { case: 'beginning', value: true },
    ...(onInterruption && { onInterruption }),
  })

test('certificates are reloaded without losing a connection, and invalid ones are ignored', async () => {
  const client = createClient(BusinessService, grpc())
  await client.listBusinesses({})
  const interruptions: string[] = []
  const stream = readEvents(({ message }) => void interruptions.push(message))
  await writeEvents(tls.database.durablePool, 1)
  await stream.next()
  const kept = await handshake(tls.httpUrl, { ALPNProtocols: ['http/1.1'] })
  const askKept = async () => {
    const answer = new Promise<string>((resolve) => kept.once('data', (data) => resolve(`${data}`)))
    kept.write('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n')
    expect(await answer).toMatch(/^HTTP\/1.1 200 /)
  }
  // A connection on which nothing is sent is closed after ten seconds.
  await askKept()

  const second = makeCertificate({ issuer: tls.authority, commonName: 'Second' })
  tls.write({ cert: second.cert, key: second.key })
  tls.reloadTls()
  const shown = [await shownAt(tls.httpUrl), await shownAt(tls.grpcUrl)]
  expect(shown).toEqual(['Second', 'Second'])
  // The connections from before go on, and so does the stream.
  await client.listBusinesses({})
  const [id] = await writeEvents(tls.database.durablePool, 1)
  for (let event = await stream.next(); event.value?.id !== id; event = await stream.next()) {
    expect(event.done).toBe(false)
  }
  await stream.return()
  expect(interruptions).toEqual([])
  await askKept()
  kept.destroy()

  for (const files of [
    { cert: 'no certificate' },
    { cert: second.cert, key: makeCertificate().key },
  ]) {
    tls.write(files)
    tls.reloadTls()
    expect(await shownAt(tls.httpUrl)).toBe('Second')
    expect(await shownAt(tls.grpcUrl)).toBe('Second')
  }
  rmSync(tls.path('key'))
  tls.reloadTls()
  expect(await shownAt(tls.grpcUrl)).toBe('Second')
  await waitFor(() =>
    expect(logged.filter(({ level }) => level === 50).map(({ faults }) => faults)).toEqual([
      [expect.stringMatching(/^TLS_CERT is a file without a certificate in PEM: /)],
      [expect.stringMatching(/^TLS_KEY is not the key of the certificate in TLS_CERT: /)],
      [expect.stringMatching(/^TLS_KEY is a file that does not exist: /)],
    ]),
  )
  tls.write({ key: second.key })
})
