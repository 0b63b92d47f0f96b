import { rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:https'
import { type AddressInfo, connect } from 'node:net'
import { join } from 'node:path'
import { create, fromBinary, type MessageShape, toBinary } from '@bufbuild/protobuf'
import { createClient } from '@connectrpc/connect'
import { Client, credentials, Metadata } from '@grpc/grpc-js'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import {
  SubscribeRequestSchema,
  SubscribeResponseSchema,
} from '../../gen/inflow/event/v1/event_service_pb.ts'
import {
  ListTransactionsRequestSchema,
  RecordOutcome,
  RecordPaymentRequestSchema,
  RecordPaymentResponseSchema,
  TransactionService,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { asJson, send } from '../protocols/rest/rest.ts'
import { useDatabase } from '../support/database.ts'
import { makeFolder } from '../support/folder.ts'
import { grpcTransport } from '../support/grpc-client.ts'
import { type ServiceProcess, startProcess } from '../support/process.ts'
import { ADMIN_TOKEN } from '../support/service.ts'
import { waitFor, waitUntil } from '../support/wait-for.ts'
import { answeredBy, isAlive, logOf, workersOf } from '../support/workers.ts'
import { makeCertificate } from '../webhooks/sender/certificate.ts'

const WORKERS = 3
const CONNECTIONS = 12
/** Who takes a connection is up to the system: so many are opened at most until all workers have one. */
const CONNECTIONS_MAX = 200
const PAYMENTS = 600
const COPIES = 2_000

/** For what a busy machine may take long for. */
const WAIT_MS = 20_000

/** How many requests each of the endpoints may get at once: more than there are workers, and fewer. */
const CONCURRENCY = [4, 1]

const db = useDatabase()
let service: ServiceProcess
let folder: string
const receivers: Awaited<ReturnType<typeof startReceiver>>[] = []
let business: { id: string; key: string }
let accountNumber: string
const connections: ReturnType<typeof openConnection>[] = []

/** A connection of its own, as each process of an internal service has one. */
function openConnection() {
  const options = { 'grpc.use_local_subchannel_pool': 1 }
  const client = new Client(service.grpcAddress, credentials.createInsecure(), options)
  const metadata = new Metadata()
  metadata.set('authorization', `Bearer ${ADMIN_TOKEN}`)
  const record = (sessionId: string) => {
    const bank = Bank.BANK_9PSB
    const request = { bank, accountNumber, sessionId, amountMinor: 100n }
    return new Promise<MessageShape<typeof RecordPaymentResponseSchema>>((resolve, reject) => {
      client.makeUnaryRequest(
        `/${TransactionService.typeName}/RecordPayment`,
        () =>
          Buffer.from(
            toBinary(RecordPaymentRequestSchema, create(RecordPaymentRequestSchema, request)),
          ),
        (bytes: Buffer) => fromBinary(RecordPaymentResponseSchema, bytes),
        null,
        metadata,
        (error, response) => (error ? reject(error) : resolve(response!)),
      )
    })
  }
  /** Opens the connection. */
  const open = () =>
    new Promise<void>((resolve, reject) => {
      client.makeUnaryRequest(
        `/${TransactionService.typeName}/ListTransactions`,
        () =>
          Buffer.from(
            toBinary(
              ListTransactionsRequestSchema,
              create(ListTransactionsRequestSchema, { businessId: business.id }),
            ),
          ),
        () => true,
        null,
        metadata,
        (error) => (error ? reject(error) : resolve()),
      )
    })
  /** Subscribes to every event from the beginning. */
  const follow = () => {
    const ids: string[] = []
    const request = create(SubscribeRequestSchema, { start: { case: 'beginning', value: true } })
    const stream = client.makeServerStreamRequest(
      '/inflow.event.v1.EventService/Subscribe',
      () => Buffer.from(toBinary(SubscribeRequestSchema, request)),
      (bytes: Buffer) => fromBinary(SubscribeResponseSchema, bytes),
      null,
      metadata,
    )
    stream.on('data', ({ item }: MessageShape<typeof SubscribeResponseSchema>) => {
      if (item.case === 'event') ids.push(item.value.id)
    })
    stream.on('error', () => undefined)
    return { ids, end: () => stream.cancel() }
  }
  return { open, record, follow, close: () => client.close() }
}

/** An https receiver that counts its concurrent requests. */
async function startReceiver(certificate: { cert: string; key: string }) {
  const seen: string[] = []
  let inProgress = 0
  let atOnce = 0
  const server = createServer(certificate, (request, response) => {
    inProgress += 1
    atOnce = Math.max(atOnce, inProgress)
    request.resume().on('end', () => {
      seen.push(String(request.headers['webhook-id']))
      // Responds late, so that concurrent requests overlap.
      setTimeout(() => {
        inProgress -= 1
        response.end()
      }, 5)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    seen,
    atOnce: () => atOnce,
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

beforeAll(async () => {
  const certificate = makeCertificate()
  folder = await makeFolder('workers')
  const authority = join(folder, 'authority.pem')
  await writeFile(authority, certificate.cert)
  for (const _concurrency of CONCURRENCY) receivers.push(await startReceiver(certificate))
  service = await startProcess(
    {
      DATABASE_URL: db.url,
      WORKERS: `${WORKERS}`,
      LOG_LEVEL: 'debug',
      NODE_EXTRA_CA_CERTS: authority,
      WEBHOOK_ALLOWED_CIDRS: '127.0.0.0/8',
    },
    true,
  )
  const transport = grpcTransport(service.grpcUrl)
  const made = await createClient(BusinessService, transport).createBusiness({ name: 'Acme' })
  business = { id: made.business!.id, key: made.secretKey }
  const { account } = await createClient(AccountService, transport).createAccount({
    businessId: business.id,
    reference: 'order-1',
    bank: Bank.BANK_9PSB,
    firstName: 'Ada',
    lastName: 'Obi',
    email: 'ada@example.com',
    phone: '08012345678',
  })
  accountNumber = account!.accountNumber
  const webhooks = createClient(WebhookService, transport)
  for (const [index, concurrency] of CONCURRENCY.entries()) {
    const { url } = receivers[index]!
    await webhooks.createEndpoint({ businessId: business.id, url, concurrency })
  }
  const served = () => answeredBy(service, '/ListTransactions').size
  while (connections.length < CONNECTIONS || served() < WORKERS) {
    expect(connections.length).toBeLessThan(CONNECTIONS_MAX)
    const connection = openConnection()
    connections.push(connection)
    await connection.open()
  }
  // Four processes start.
}, 90_000)

afterAll(async () => {
  for (const connection of connections) connection.close()
  await service?.kill()
  await Promise.all(receivers.map((receiver) => receiver.close()))
  await rm(folder, { recursive: true, force: true })
})

const every = new Set(Array.from({ length: WORKERS }, (_, index) => index + 1))

async function scrape(): Promise<(series: string) => number> {
  const { status, text } = await send(service.httpUrl, { method: 'GET', path: '/metrics' })
  expect(status).toBe(200)
  const lines = text.split('\n')
  // Prometheus rejects a scrape with a duplicate series.
  const names = lines.filter((line) => /^[a-z]/.test(line)).map((line) => line.replace(/ \S+$/, ''))
  expect(new Set(names).size).toBe(names.length)
  return (series) => Number(lines.find((line) => line.startsWith(`${series} `))?.split(' ')[1])
}

test('all workers serve payments and lookups on the same ports', async () => {
  const responses = await Promise.all(
    Array.from({ length: PAYMENTS }, (_, index) =>
      connections[index % connections.length]!.record(`S${index}`),
    ),
  )
  expect(responses.every(({ outcome }) => outcome === RecordOutcome.RECORDED)).toBe(true)
  // Each over a connection of its own.
  const lookups = () =>
    Promise.all(
      Array.from({ length: 30 }, async (_, index) => {
        const body = JSON.stringify({ session_id: `S${index}` })
        const response = await send(service.httpUrl, { headers: asJson(business.key), body })
        return response.status
      }),
    )
  await vi.waitFor(async () => {
    for (const status of await lookups()) expect(status).toBe(200)
    expect(answeredBy(service, '/RecordPayment')).toEqual(every)
    expect(answeredBy(service, '/GetTransaction')).toEqual(every)
  }, WAIT_MS)
})

test('records a payment once when all workers receive it concurrently', async () => {
  const copies = await Promise.all(
    Array.from({ length: COPIES }, (_, index) =>
      connections[index % connections.length]!.record('copied'),
    ),
  )
  const count = (outcome: RecordOutcome) => copies.filter((each) => each.outcome === outcome).length
  expect(count(RecordOutcome.RECORDED)).toBe(1)
  expect(count(RecordOutcome.DUPLICATE)).toBe(COPIES - 1)
  const { rows } = await db.database.pool.query(
    `select count(*)::int as postings from ledger_posting p
      join transaction t on t.id = p.transaction_id where t.session_id = 'copied'`,
  )
  expect(rows[0].postings).toBe(1)
})

test('a subscriber of each worker receives the whole log in order', async () => {
  const followers = connections.map((connection) => connection.follow())
  // More payments arrive while the subscribers read.
  for (let index = 0; index < 30; index++) {
    await connections[index % connections.length]!.record(`later-${index}`)
  }
  const total = 1 + PAYMENTS + 1 + 30
  await vi.waitFor(() => {
    for (const { ids } of followers) expect(ids.length).toBe(total)
  }, WAIT_MS)
  const { rows } = await db.database.pool.query('select event_id from event_log order by position')
  for (const { ids, end } of followers) {
    expect(ids).toEqual(rows.map((row) => row.event_id))
    end()
  }
  await vi.waitFor(() => expect(answeredBy(service, '/Subscribe')).toEqual(every), WAIT_MS)
  expect(logOf(service).filter(({ msg }) => msg === 'background work assigned')).toHaveLength(1)
})

test('sends each webhook once, within the concurrency of each endpoint', async () => {
  const { rows } = await db.database.pool.query(
    `select l.event_id from event_log l join outbox o on o.seq = l.outbox_seq
      where o.kind = 'PAYMENT_NOTIFICATION'`,
  )
  const events = new Set(rows.map((row) => row.event_id))
  expect(events.size).toBe(PAYMENTS + 1 + 30)
  for (const { seen } of receivers) {
    await waitFor(() => expect(seen.length).toBe(events.size))
    expect(new Set(seen)).toEqual(events)
  }
  // The shares of all workers add up to the endpoint’s concurrency.
  expect(receivers.map(({ atOnce }) => atOnce())).toEqual(CONCURRENCY)
}, 60_000)

test('each worker exposes the metrics of all workers and of the database', async () => {
  const rpc = `/${TransactionService.typeName}/RecordPayment`
  const series = `inflow_rpc_requests_total{method="${rpc}",protocol="grpc",code="ok"}`
  const acknowledged = 'inflow_webhook_attempts_total{outcome="acknowledged",mode="live"}'
  // An attempt counts once its result is recorded, which is after the receiver has answered.
  await vi.waitFor(async () => {
    const read = await scrape()
    expect(read(acknowledged)).toBe(receivers.length * (PAYMENTS + 1 + 30))
  }, WAIT_MS)
  for (let each = 0; each < 2 * WORKERS; each++) {
    const read = await scrape()
    expect(read(series)).toBe(PAYMENTS + COPIES + 30)
    expect(read(`inflow_rpc_duration_seconds_count{method="${rpc}",protocol="grpc"}`)).toBe(
      PAYMENTS + COPIES + 30,
    )
    expect(read('inflow_event_log_end')).toBe(1 + PAYMENTS + 1 + 30)
    expect(read('inflow_payments_total{outcome="RECORDED",bank="9PSB",mode="live"}')).toBe(
      PAYMENTS + 1 + 30,
    )
    expect(read('inflow_payments_total{outcome="DUPLICATE",bank="9PSB",mode="live"}')).toBe(
      COPIES - 1,
    )
    expect(read(acknowledged)).toBe(receivers.length * (PAYMENTS + 1 + 30))
    // Of the database, which is the same for all workers; of the processes, each has its own.
    expect(read('inflow_db_timeline')).toBe(1)
    expect(read('inflow_ready')).toBe(1)
    expect(read('inflow_audit_head_invalid')).toBe(0)
    expect(read('inflow_db_pool_connections_max{pool="recording"}')).toBe(3 * WORKERS)
    expect(read('inflow_connections{server="grpc"}')).toBeGreaterThanOrEqual(CONNECTIONS)
    const startedMs = read('process_start_time_seconds') * 1_000
    expect(startedMs).toBeLessThanOrEqual(Date.now())
  }
})

/** A keep-alive connection to the HTTP server, and its state. */
function keepOpen() {
  const { hostname, port } = new URL(service.httpUrl)
  const socket = connect(Number(port), hostname)
  const state = {
    responses: 0,
    closed: false,
    request: () => void 0,
    end: () => void socket.destroy(),
  }
  socket.on('data', () => {
    state.responses += 1
  })
  socket
    .on('error', () => undefined)
    .on('close', () => {
      state.closed = true
    })
  state.request = () => void socket.write('GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n')
  state.request()
  return state
}

/** Opens a few connections, and waits until each has been served once. */
async function openMany() {
  const opened = Array.from({ length: 2 * WORKERS }, keepOpen)
  await vi.waitFor(
    () => expect(opened.every(({ responses }) => responses === 1)).toBe(true),
    WAIT_MS,
  )
  return opened
}

describe('a worker that hangs (SIGSTOP)', () => {
  test('delays neither new connections nor metrics, and only its connections end with it', async () => {
    const workers = workersOf(service)
    const stopped = workers.get(2)!
    const others = [...workers.values()].filter((pid) => pid !== stopped)
    // Only a worker that is awake accepts connections: these belong to the one that will hang.
    for (const pid of others) process.kill(pid, 'SIGSTOP')
    const before = await openMany()
    for (const pid of others) process.kill(pid, 'SIGCONT')
    process.kill(stopped, 'SIGSTOP')
    const later = await openMany()
    await scrape()
    process.kill(stopped, 'SIGKILL')
    await vi.waitFor(() => expect(before.every(({ closed }) => closed)).toBe(true), WAIT_MS)
    await waitUntil(() => workersOf(service).get(2) !== stopped)
    for (const { request } of later) request()
    await vi.waitFor(
      () => expect(later.every(({ responses }) => responses === 2)).toBe(true),
      WAIT_MS,
    )
    expect(later.some(({ closed }) => closed)).toBe(false)
    for (const { end } of [...before, ...later]) end()
  }, 60_000)
})

test('calls in progress complete when the service stops, and no process is left', async () => {
  const slow = {
    ...{ email: 'ada@example.com', firstName: 'Ada', lastName: 'Obi', bank: '9PSB' },
    // The sandbox responds to this phone number after two seconds.
    phone: '08000000003',
  }
  const begun = Array.from({ length: 2 * WORKERS }, (_, index) =>
    send(service.httpUrl, {
      path: '/v2/thirdparty/generateVirtualAccount/',
      headers: asJson(business.key),
      body: JSON.stringify({ ...slow, reference: `slow-${index}` }),
    }),
  )
  await vi.waitFor(async () => {
    const { rows } = await db.database.pool.query(
      "select count(*)::int as count from account where merchant_reference like 'slow-%'",
    )
    expect(rows[0].count).toBe(begun.length)
  }, WAIT_MS)
  const pids = [...workersOf(service).values()]
  expect(pids.filter(isAlive)).toHaveLength(WORKERS)
  const stopped = service.stop()
  const responses = await Promise.all(begun)
  expect(responses.map(({ status }) => status)).toEqual(begun.map(() => 200))
  expect(await stopped).toBe(0)
  expect(pids.filter(isAlive)).toEqual([])
  await expect(fetch(`${service.httpUrl}/healthz`)).rejects.toThrow()
}, 30_000)
