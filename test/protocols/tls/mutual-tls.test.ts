import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { connect } from 'node:tls'
import { Code, ConnectError, createClient } from '@connectrpc/connect'
import { createGrpcTransport } from '@connectrpc/connect-node'
import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { EventService } from '../../../gen/inflow/event/v1/event_service_pb.ts'
import { SessionService } from '../../../gen/inflow/session/v1/session_service_pb.ts'
import { ThirdPartyService } from '../../../gen/inflow/thirdparty/v2/third_party_service_pb.ts'
import { TransactionService } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { subscribe } from '../../../src/client/subscribe.ts'
import { identityOf } from '../../../src/server/grpc/connections.ts'
import { runHere } from '../../cli/run-inflow.ts'
import { makeCertificate, type TestCertificate } from '../../support/certificate.ts'
import { publishEvents } from '../../support/events.ts'
import { temporaryFolder } from '../../support/folder.ts'
import { ADMIN_TOKEN, bearer } from '../../support/service.ts'
import { FEED, PAYMENTS, REVERSALS, useTls } from './tls-fixture.ts'

const tls = useTls(true)

const issue = (uris: readonly string[], more: object = {}) =>
  makeCertificate({ issuer: tls.authority, commonName: 'Client', hosts: [], uris, ...more })

/** A transport that shows a certificate, and a token when one is given. */
function transportOf(certificate: TestCertificate | undefined, token?: string) {
  const { cert, key } = certificate ?? {}
  return createGrpcTransport({
    baseUrl: tls.grpcUrl,
    nodeOptions: { ca: tls.authority.cert, ...(cert && { cert, key }) },
    interceptors: token === undefined ? [] : [bearer(token)],
  })
}

const codeOf = (call: Promise<unknown>) =>
  call.then(
    () => 'OK',
    (error) => Code[ConnectError.from(error).code],
  )

const LOOK_UP = { sessionId: 'none', businessId: 'biz_none' }
const REVERSAL = { transactionId: 'txn_none', reason: 'sent twice' }

let payments: TestCertificate
let feed: TestCertificate
let unmapped: TestCertificate

beforeAll(() => {
  payments = issue([PAYMENTS])
  feed = issue([FEED])
  unmapped = issue(['spiffe://example.org/other'])
})

test('a client without a certificate of the authority fails the handshake', async () => {
  const stranger = makeCertificate({ commonName: 'Stranger', uris: [PAYMENTS] })
  const expired = issue([PAYMENTS], { fromMs: 0, toMs: Date.now() - 1_000 })
  for (const certificate of [undefined, stranger, expired]) {
    const client = createClient(BusinessService, transportOf(certificate, ADMIN_TOKEN))
    const error = await client.listBusinesses({}).catch(ConnectError.from)
    expect(error).toBeInstanceOf(ConnectError)
    // It is the connection that fails: the service says nothing of its own.
    expect((error as ConnectError).isWireError).toBeFalsy()
  }
})

describe('without a token', () => {
  test('the URI of the certificate has its scopes, and no others', async () => {
    const asPayments = transportOf(payments)
    const asFeed = transportOf(feed)
    const asReversals = transportOf(issue([REVERSALS]))
    const outcomes = [
      codeOf(createClient(TransactionService, asPayments).getTransaction(LOOK_UP)),
      codeOf(createClient(TransactionService, asFeed).getTransaction(LOOK_UP)),
      codeOf(createClient(EventService, asFeed).listEvents({ businessId: 'biz_none' })),
      codeOf(createClient(TransactionService, asPayments).reverseTransaction(REVERSAL)),
      codeOf(createClient(TransactionService, asReversals).reverseTransaction(REVERSAL)),
      codeOf(createClient(BusinessService, asPayments).createBusiness({ name: 'x' })),
      codeOf(createClient(ThirdPartyService, asPayments).getTransaction({ sessionId: 'none' })),
      // A certificate is no credential that a browser's session could stand for.
      codeOf(createClient(SessionService, asPayments).createSignInCode({})),
    ]
    expect(await Promise.all(outcomes)).toEqual([
      'NotFound',
      'PermissionDenied',
      'OK',
      'PermissionDenied',
      'NotFound',
      'PermissionDenied',
      'Unauthenticated',
      'PermissionDenied',
    ])
  })

  test('an unmapped URI, none, or more than one is not a caller', async () => {
    for (const certificate of [unmapped, issue([]), issue([PAYMENTS, FEED])]) {
      const client = createClient(TransactionService, transportOf(certificate))
      expect(await codeOf(client.getTransaction(LOOK_UP))).toBe('Unauthenticated')
    }
  })
})

test('a stream ends when its certificate expires', async () => {
  const openFor = async (ms: number) => {
    const soon = issue([FEED], { toMs: Date.now() + ms })
    const stream = createClient(EventService, transportOf(soon)).subscribe({})
    const items = stream[Symbol.asyncIterator]()
    const first = await items.next().catch(() => undefined)
    return first?.value?.item.case === 'checkpoint' ? items : undefined
  }
  // A slow machine needs longer for its handshake.
  let items: Awaited<ReturnType<typeof openFor>>
  for (let ms = 5_000; items === undefined; ms *= 2) items = await openFor(ms)
  const opened = items
  const readAll = async () => {
    while (!(await opened.next()).done);
  }
  await expect(readAll()).rejects.toMatchObject({ code: Code.Unauthenticated })
})

test('a token counts alone, whatever the certificate', async () => {
  const good = createClient(BusinessService, transportOf(unmapped, ADMIN_TOKEN))
  expect(await codeOf(good.listBusinesses({}))).toBe('OK')
  for (const token of ['wrong-token-0123456789', '']) {
    const bad = createClient(TransactionService, transportOf(payments, token))
    expect(await codeOf(bad.getTransaction(LOOK_UP))).toBe('Unauthenticated')
  }
})

test('the HTTP server requires no client certificate', async () => {
  const socket = connect({
    port: Number(new URL(tls.httpUrl).port),
    host: '127.0.0.1',
    ca: tls.authority.cert,
  })
  const answer = new Promise<string>((resolve) => socket.once('data', (text) => resolve(`${text}`)))
  socket.write('GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
  expect(await answer).toMatch(/^HTTP\/1.1 200 /)
})

test('the command line and the event client show a certificate', async () => {
  const [id] = await publishEvents(tls.database.durablePool, 1)
  const events = subscribe({
    addresses: [new URL(tls.grpcUrl).host],
    token: '',
    tls: { ca: tls.authority.cert, cert: feed.cert, key: feed.key },
    start: { case: 'beginning', value: true },
  })
  expect((await events.next()).value?.id).toBe(id)
  await events.return()

  const folder = temporaryFolder()
  writeFileSync(join(folder, 'client.pem'), payments.cert)
  writeFileSync(join(folder, 'client.key'), payments.key)
  const env = {
    INFLOW_GRPC_URL: tls.grpcUrl,
    INFLOW_CA: tls.path('authority'),
    INFLOW_CERT: join(folder, 'client.pem'),
    INFLOW_KEY: join(folder, 'client.key'),
  }
  const list = ['transaction', 'list', '--all', '--json']
  const half: Record<string, string> = { ...env, INFLOW_TOKEN: 'x', INFLOW_KEY: '' }
  const [shown, alone] = [await runHere(list, env), await runHere(list, half)]
  expect(shown.code, shown.stderr).toBe(0)
  expect(alone).toMatchObject({ code: 2, stderr: expect.stringMatching(/must be set together/) })
})

test('the command line says what is wrong with the client certificate', async () => {
  const folder = temporaryFolder()
  const stranger = makeCertificate({ commonName: 'Stranger', uris: [PAYMENTS] })
  const expired = issue([PAYMENTS], { fromMs: 0, toMs: Date.now() - 60_000 })
  const ca = { INFLOW_GRPC_URL: tls.grpcUrl, INFLOW_TOKEN: 'x', INFLOW_CA: tls.path('authority') }
  const show = ({ cert, key }: TestCertificate) => {
    writeFileSync(join(folder, 'shown.pem'), cert)
    writeFileSync(join(folder, 'shown.key'), key)
    return { INFLOW_CERT: join(folder, 'shown.pem'), INFLOW_KEY: join(folder, 'shown.key') }
  }
  for (const command of [
    ['business', 'list'],
    ['events', 'tail'],
  ]) {
    const [none, foreign, old] = [
      await runHere(command, ca),
      await runHere(command, { ...ca, ...show(stranger) }),
      await runHere(command, { ...ca, ...show(expired) }),
    ]
    expect([none.code, foreign.code, old.code]).toEqual([3, 3, 3])
    expect(none.stderr).toMatch(
      /: it asks for a client certificate: set INFLOW_CERT and INFLOW_KEY\n$/,
    )
    expect(foreign.stderr).toMatch(/it does not accept the client certificate: set INFLOW_CERT/)
    expect(old.stderr).toMatch(
      /the client certificate has expired: replace the file of INFLOW_CERT/,
    )
  }
})

test('another authority is taken from the next connection on; open ones stay', async () => {
  const before = createClient(TransactionService, transportOf(payments))
  expect(await codeOf(before.getTransaction(LOOK_UP))).toBe('NotFound')
  const other = makeCertificate({ commonName: 'Other authority', hosts: [], addresses: [] })
  tls.write({ clientCa: other.cert })
  tls.reloadTls()
  const theirs = makeCertificate({ issuer: other, commonName: 'Theirs', uris: [PAYMENTS] })
  const after = createClient(TransactionService, transportOf(theirs))
  expect(await codeOf(after.getTransaction(LOOK_UP))).toBe('NotFound')
  const late = createClient(TransactionService, transportOf(payments))
  expect(await codeOf(late.getTransaction(LOOK_UP))).not.toBe('NotFound')
  expect(await codeOf(before.getTransaction(LOOK_UP))).toBe('NotFound')
  tls.write({ clientCa: tls.authority.cert })
  tls.reloadTls()
})

describe('the URI of a certificate', () => {
  const valid_to = 'Jan  1 00:00:00 2100 GMT'

  test('is not found inside of other names', () => {
    const uri = 'spiffe://example.org/payments'
    for (const subjectaltname of [
      `DNS:"a, URI:${uri}"`,
      `DNS:a, othername:"URI:${uri}"`,
      `DNS:"a\\", URI:${uri}"`,
      `URI:"${uri}, b", URI:${uri}`,
      `DNS:a"b, URI:${uri}`,
    ]) {
      expect(identityOf({ subjectaltname, valid_to })).toBeUndefined()
    }
    expect(identityOf({ subjectaltname: `DNS:a, URI:${uri}`, valid_to })?.uri).toBe(uri)
  })

  test('no text makes it fail', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(...'URI:DNS,"\\ /ab') }), (subjectaltname) => {
        const found = identityOf({ subjectaltname, valid_to })
        expect(found === undefined || subjectaltname.includes(found.uri)).toBe(true)
      }),
      { numRuns: 2_000 },
    )
  })
})
