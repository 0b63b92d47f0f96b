import { randomBytes } from 'node:crypto'
import { createClient } from '@connectrpc/connect'
import { createGrpcWebTransport } from '@connectrpc/connect-node'
import { Client, credentials, Metadata, type ServiceError } from '@grpc/grpc-js'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { IdType } from '../../../gen/inflow/account/v1/account_pb.ts'
import { AccountService } from '../../../gen/inflow/account/v1/account_service_pb.ts'
import { AdminService } from '../../../gen/inflow/admin/v1/admin_service_pb.ts'
import { BusinessService } from '../../../gen/inflow/business/v1/business_service_pb.ts'
import { EventService } from '../../../gen/inflow/event/v1/event_service_pb.ts'
import { SandboxService } from '../../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import { Bank } from '../../../gen/inflow/type/v1/bank_pb.ts'
import { EndpointProfile } from '../../../gen/inflow/webhook/v1/endpoint_pb.ts'
import { WebhookService } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { createLog } from '../../../src/app/log.ts'
import { useDatabase } from '../../support/database.ts'
import { grpcTransport } from '../../support/grpc-client.ts'
import { type ServiceProcess, startProcess } from '../../support/process.ts'
import { byHand, startProxy, type TcpProxy } from '../../support/proxy.ts'
import { type Receiver, startReceiver } from '../../support/receiver.ts'
import { bearer } from '../../support/service.ts'
import { WAIT_LIMIT_MS, waitFor } from '../../support/wait-for.ts'
import { asJson, creation, exchange, GENERATE, GET_TRANSACTION, send } from '../rest/rest.ts'
import { dumpDatabase, findSecrets, type Secret } from './secrets-fixture.ts'

const db = useDatabase()

const ADMIN = `adm-${randomBytes(24).toString('base64url')}`
const MASTER = randomBytes(32)
/** In the form of keys and tokens, but issued to no caller. */
const WRONG_KEY = `sk_live_${'0'.repeat(26)}_${randomBytes(32).toString('base64url')}`
const WRONG_TOKEN = `inflow_admin_${randomBytes(32).toString('base64url')}`
const IDENTITY = '22736451908'
const UNREAD_IDENTITY = '33918264507'

let wire: TcpProxy
let service: ServiceProcess
let receiver: Receiver
const secrets: Secret[] = []
/** All error responses that callers got. */
const refusals: string[] = []

beforeAll(async () => {
  wire = await startProxy(db.url, byHand)
  receiver = await startReceiver()
  service = await startProcess(
    {
      DATABASE_URL: wire.through,
      LOG_LEVEL: 'trace',
      ADMIN_TOKEN: ADMIN,
      MASTER_KEY: MASTER.toString('base64'),
      WEBHOOK_ALLOWED_CIDRS: '127.0.0.0/8',
    },
    true,
  )
  secrets.push(
    { name: 'admin token', text: ADMIN },
    { name: 'master key', text: MASTER.toString('base64') },
    { name: 'master key', text: MASTER.toString('latin1') },
    { name: 'wrong key', text: WRONG_KEY, publicLength: 'sk_live_'.length + 26 },
    { name: 'wrong token', text: WRONG_TOKEN, publicLength: 'inflow_admin_'.length },
    { name: 'identity number', text: IDENTITY },
    { name: 'identity number of an unread body', text: UNREAD_IDENTITY },
    { name: "the database's password", text: new URL(db.url).password },
  )
})

afterAll(async () => {
  await service?.kill()
  await receiver?.close()
  await wire?.block()
})

const transport = (token = ADMIN) => grpcTransport(service.grpcUrl, token)

/** Keeps the error that the caller gets, with its details. */
async function refused(call: Promise<unknown>): Promise<void> {
  const error = await call.then(
    () => undefined,
    (failure: Record<string, unknown>) => failure,
  )
  expect(error).toBeDefined()
  const { message, details, metadata } = error as unknown as {
    message: string
    details: unknown
    metadata: Headers | Metadata
  }
  const headers = metadata instanceof Metadata ? metadata.getMap() : [...metadata]
  // As text and as bytes: details in binary are not readable in their base64.
  const json = JSON.stringify([message, details, headers], (_key, value) =>
    value instanceof Uint8Array || value?.type === 'Buffer'
      ? Buffer.from(value.data ?? value).toString('latin1')
      : typeof value === 'bigint'
        ? String(value)
        : value,
  )
  refusals.push(json)
}

/** A call over HTTP that fails. */
async function refusedAt(request: Parameters<typeof send>[1]): Promise<void> {
  const answer = await send(service.httpUrl, request)
  expect(answer.status).toBeGreaterThanOrEqual(400)
  refusals.push(JSON.stringify(answer.headers), answer.text)
}

const order = (reference: string) =>
  creation({ reference, bank: 'PALMPAY', idType: 'bvn', idNumber: IDENTITY })

/** The same, as internal services say it. */
const internalOrder = (reference: string) => ({
  ...order(reference),
  bank: Bank.BANK_PALMPAY,
  idType: IdType.BVN,
})

const UNREAD = `{"reference": 7, "idNumber": {"nin": "${UNREAD_IDENTITY}"`

/** Bytes to a method of the gRPC server. */
function callRaw(path: string, bytes: Buffer, authorization: string): Promise<never> {
  const client = new Client(service.grpcAddress, credentials.createInsecure())
  const metadata = new Metadata()
  metadata.set('authorization', authorization)
  return new Promise<never>((_, reject) => {
    const same = (value: Buffer) => value
    client.makeUnaryRequest(path, same, same, bytes, metadata, (error: ServiceError | null) => {
      client.close()
      reject(error)
    })
  })
}

/** A day in the life of the service. @returns a business's key, and its id */
async function playScene() {
  const businesses = createClient(BusinessService, transport())
  const created = await businesses.createBusiness({ name: 'Acme' })
  const businessId = created.business!.id
  const issued = await businesses.issueKey({ businessId })
  secrets.push(
    keySecret('first key', created.secretKey),
    keySecret('revoked key', issued.secretKey),
  )
  await businesses.revokeKey({ keyId: issued.key!.id })
  const foreign = `other-provider-${randomBytes(24).toString('base64url')}`
  await businesses.importKey({ businessId, secretKey: foreign })
  await send(service.httpUrl, {
    path: '/v2/thirdparty/getBalance/',
    headers: asJson(foreign),
    body: '{}',
  })
  secrets.push({ name: 'imported key', text: foreign, publicLength: 10 })
  await businesses.listKeys({ businessId })
  const admin = createClient(AdminService, transport())
  const { secret: token } = await admin.issueToken({ name: 'ledger', scopes: ['read'] })
  secrets.push(keySecret('token', token))
  for (const text of [created.secretKey, token]) {
    const bytes = Buffer.from(text.slice(-43), 'base64url')
    for (const coding of ['latin1', 'hex'] as const) {
      secrets.push({ name: 'bytes of a key or token', text: bytes.toString(coding) })
    }
  }

  const webhooks = createClient(WebhookService, transport())
  const { endpoint, secret } = await webhooks.createEndpoint({
    businessId,
    url: 'https://127.0.0.1:1/x',
  })
  const rotated = await webhooks.rotateSecret({ endpointId: endpoint!.id })
  for (const text of [secret, rotated.secret]) {
    secrets.push({ name: 'webhook secret', text, publicLength: 'whsec_'.length })
    const bytes = Buffer.from(text.slice('whsec_'.length), 'base64')
    secrets.push({ name: 'webhook secret, its bytes', text: bytes.toString('latin1') })
  }
  await webhooks.sendTestEvent({ endpointId: endpoint!.id })
  await playTextSecrets(businessId)

  const key = created.secretKey
  const account = await send(service.httpUrl, {
    path: GENERATE,
    headers: asJson(key),
    body: JSON.stringify(order('order-1')),
  })
  expect(account.status, account.text).toBe(200)
  const accountNumber = JSON.parse(account.text).data.account[0].account_number
  const sandbox = createClient(SandboxService, transport())
  await sandbox.simulateTransfer({ accountNumber, amountMinor: 150_000n, sessionId: 'session-1' })
  await createClient(AccountService, transport()).createAccount({
    ...internalOrder('order-2'),
    businessId,
  })
  // What cannot be sent is tried again later: the first attempt is all that is waited for.
  await waitFor(async () => {
    const { deliveries } = await webhooks.listDeliveries({ endpointId: endpoint!.id })
    expect(deliveries.length).toBeGreaterThan(0)
    expect(deliveries.some(({ attemptCount }) => attemptCount > 0)).toBe(true)
  })
  return { key, businessId, revoked: issued.secretKey }
}

/** An endpoint of the earlier format, whose texts are switched. */
async function playTextSecrets(businessId: string) {
  const webhooks = createClient(WebhookService, transport())
  const [first, second] = [randomBytes(24), randomBytes(24)].map((bytes) => bytes.toString('hex'))
  const { endpoint } = await webhooks.createEndpoint({
    businessId,
    url: 'https://127.0.0.1:1/existing',
    profile: EndpointProfile.WIAXY,
    textSecret: first!,
  })
  const endpointId = endpoint!.id
  await webhooks.rotateSecret({ endpointId, textSecret: second! })
  await webhooks.sendTestEvent({ endpointId })
  await webhooks.switchSecret({ endpointId })
  secrets.push({ name: 'text secret', text: first! }, { name: 'next text secret', text: second! })
}

function keySecret(name: string, text: string): Secret {
  // "sk_live_" and the key's id are shown in lists; the 43 characters after them are the secret.
  return { name, text, publicLength: text.length - 43 }
}

/** Everything that can go wrong on the side of a caller. */
async function playFailures({ key, businessId, revoked }: Awaited<ReturnType<typeof playScene>>) {
  for (const wrong of [WRONG_KEY, WRONG_TOKEN, ADMIN, revoked, `${key}x`]) {
    await refusedAt({ headers: asJson(wrong), body: '{"session_id":"1"}' })
  }
  for (const body of [UNREAD, `"${UNREAD_IDENTITY}"`, `{"idNumber": ${UNREAD_IDENTITY}}`]) {
    await refusedAt({ path: GENERATE, headers: asJson(key), body })
  }
  const bad = { ...order('order-3'), idNumber: `${IDENTITY}0`, phone: key }
  await refusedAt({ path: GENERATE, headers: asJson(key), body: JSON.stringify(bad) })
  const other = { ...order('order-1'), firstName: 'Eve' }
  await refusedAt({ path: GENERATE, headers: asJson(key), body: JSON.stringify(other) })
  await refusedAt({ path: `/nowhere/${WRONG_KEY}?token=${ADMIN}` })
  const raw = `POST ${GET_TRANSACTION} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${WRONG_KEY}\r\nBad Header: ${ADMIN}\r\n\r\n`
  refusals.push(await exchange(service.httpUrl, raw))

  const path = `/${AccountService.typeName}/CreateAccount`
  const garbage = Buffer.concat([Buffer.from('ffffffffffffffffffff01', 'hex'), Buffer.from(UNREAD)])
  for (const type of ['application/json', 'application/proto']) {
    const headers = { 'content-type': type, authorization: `Bearer ${ADMIN}` }
    await refusedAt({ path, headers, body: type.endsWith('json') ? UNREAD : garbage })
  }
  await refused(callRaw(path, garbage, `Bearer ${ADMIN}`))
  await refused(callRaw(path, garbage, `Bearer ${WRONG_TOKEN}`))
  await refused(callRaw('/nowhere/at-all', garbage, `Bearer ${ADMIN}`))
  const web = createGrpcWebTransport({
    baseUrl: service.httpUrl,
    httpVersion: '1.1',
    interceptors: [bearer(WRONG_TOKEN)],
  })
  await refused(createClient(BusinessService, web).listBusinesses({}))
  const accounts = createClient(AccountService, transport())
  await refused(accounts.createAccount({ businessId, idNumber: IDENTITY, phone: 'x' }))
  const webhooks = createClient(WebhookService, transport())
  const url = `https://user:${IDENTITY}@example.com/`
  await refused(webhooks.createEndpoint({ businessId, url }))
  const events = createClient(EventService, transport())
  await refused(
    (async () => {
      for await (const _ of events.subscribe({ start: { case: 'cursor', value: WRONG_TOKEN } }))
        break
    })(),
  )
}

/** The database fails, in ways that quote what it was given. */
async function playDatabaseFailures({ key, businessId }: { key: string; businessId: string }) {
  const { durablePool } = db.database
  const accounts = createClient(AccountService, transport())
  const create = (reference: string) =>
    accounts.createAccount({ ...internalOrder(reference), businessId })
  // "Failing row contains (…)"
  await durablePool.query(
    "alter table account add constraint unlucky check (first_name <> 'Unlucky') not valid",
  )
  await refused(
    accounts.createAccount({
      ...internalOrder('order-4'),
      firstName: 'Unlucky',
      businessId,
    }),
  )
  const body = JSON.stringify({ ...order('order-5'), firstName: 'Unlucky' })
  await refusedAt({ path: GENERATE, headers: asJson(key), body })
  await durablePool.query('alter table account drop constraint unlucky')
  await wire.block()
  await refused(create('order-6'))
  await refusedAt({ headers: asJson(WRONG_KEY.replace('0', '1')), body: '{"session_id":"1"}' })
  await wire.unblock()
  await vi.waitFor(() => create('order-7'), { timeout: WAIT_LIMIT_MS, interval: 200 })
}

test('a whole run reveals no key, token, webhook secret or identity number', async () => {
  const scene = await playScene()
  await playFailures(scene)
  await playDatabaseFailures(scene)

  const dump = await dumpDatabase(db.database.durablePool)
  expect(dump.size).toBeGreaterThan(10)
  expect([...dump.values()].join('').length).toBeGreaterThan(5_000)
  expect(await service.stop()).toBe(0)
  const logs = service.output()
  // The run left its marks: an empty log would hold no secret either.
  for (const mark of ['unauthorized', 'validation_failed', 'malformed_request', 'unavailable']) {
    expect(logs).toContain(`"reason":"${mark}"`)
  }
  expect(logs).toContain(scene.businessId)
  expect(logs).toMatch(/"level":"error",.*"err":\{.*unlucky/)
  expect(refusals.length).toBeGreaterThan(25)

  expect(findSecrets('the log', logs, secrets)).toEqual([])
  expect(findSecrets('the answers', refusals.join('\n'), secrets)).toEqual([])
  for (const [table, text] of dump) {
    const here = secrets.filter(({ name }) => name !== "the database's password")
    expect(findSecrets(table, text, here)).toEqual([])
  }
})

describe('the search', () => {
  const secret = { name: 'x', text: 'Abcdefghijklmnopqrstuvwxyz0123456789' }

  test.each([
    ['a part', secret.text.slice(7, 17)],
    ['hex', Buffer.from(secret.text).toString('hex')],
    ['base64 inside of more', Buffer.from(`{"a":"${secret.text}"}`).toString('base64')],
    ['base64url inside of more', Buffer.from(`..${secret.text}..`).toString('base64url')],
  ])('finds it as %s', (_, text) => {
    expect(findSecrets('here', `before ${text} after`, [secret])).toHaveLength(1)
  })
})

describe('the redaction of the log', () => {
  const write = (record: object, message = '') => {
    let line = ''
    createLog('info', ['known-secret-text'], { write: (text) => (line += text) }).info(
      record,
      message,
    )
    return line
  }
  const leaks = [
    'sk_live_01aaaaaaaaaaaaaaaaaaaaaaaa_Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmF',
    'it_01aaaaaaaaaaaaaaaaaaaaaaaa_Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmF',
    '__Host-inflow-session=is_01aaaaaaaaaaaaaaaaaaaaaaaa_Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmF',
    'https://pay.example.com/console/sign-in#ic_01aaaaaaaaaaaaaaaaaaaaaaaa_Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmF',
    'pl_01aaaaaaaaaaaaaaaaaaaaaaaa_Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmF',
    'whsec_Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4',
    'inflow_admin_Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6',
    'known-secret-text',
  ]

  test.each(leaks)('hides %s wherever it is', (leak) => {
    for (const line of [
      write({}, `failed with ${leak}`),
      write({ deep: { within: [leak] } }),
      write({ err: new Error(leak, { cause: new Error(leak) }) }),
      write({ err: leak }),
    ]) {
      expect(line).not.toContain(leak.slice(-20))
      expect(JSON.parse(line)).toHaveProperty('time')
    }
  })

  test('omits what errors carry besides their text', () => {
    const error = Object.assign(new Error('failed for 12345678901'), {
      code: '23514',
      detail: 'Failing row contains (12345678901)',
      parameters: ['12345678901'],
      config: { headers: { authorization: 'Bearer abcdefghijkl' } },
    })
    const line = write({ err: error, authorization: 'x-y-z', request: { headers: { a: 'b-c-d' } } })
    for (const part of ['12345678901', 'Failing', 'abcdefghijkl', 'x-y-z', 'b-c-d']) {
      expect(line).not.toContain(part)
    }
    expect(JSON.parse(line).err).toMatchObject({ code: '23514', type: 'Error' })
  })

  test('hides passwords in addresses, and the keys of certificates', () => {
    const line = write({
      url: 'postgres://inflow:pass-word@db:5432/x',
      pem: '-----BEGIN PRIVATE KEY-----\nMIIabc\n-----END PRIVATE KEY-----',
    })
    expect(line).not.toMatch(/pass-word|MIIabc/)
    expect(line).toContain('postgres://inflow:')
  })
})
