import { rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { DescService } from '@bufbuild/protobuf'
import type { Client } from '@connectrpc/connect'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { verifyWebhook } from '../../src/client/verify-webhook.ts'
import { useDatabase } from '../support/database.ts'
import { makeFolder } from '../support/folder.ts'
import { grpcClient, grpcTransport } from '../support/grpc-client.ts'
import { openAccountOver } from '../support/opened-account.ts'
import { type ServiceProcess, startProcess } from '../support/process.ts'
import { generator } from '../support/random.ts'
import { until } from '../webhooks/fixture.ts'
import { makeCertificate } from '../webhooks/sender/certificate.ts'

const PAYMENTS = Number(process.env['WEBHOOK_PAYMENTS'] ?? 1_000)
const KILLS = Number(process.env['WEBHOOK_KILLS'] ?? 2)
const ENDPOINTS = 3
const BATCH = 50
const SENDERS = 3

/** If no delivery arrives for this long, the test fails. */
const STALLED_MS = 30_000

const seed = Number(process.env['SEED'] ?? Date.now() % 1_000_000)
const random = generator(seed)

/** An https receiver that records the webhook ids of each session. */
async function startCounter(certificate: { cert: string; key: string }) {
  const idsOf = new Map<string, Set<string>>()
  let requests = 0
  let forged = 0
  let secret = ''
  const server = createServer(certificate, (request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('error', () => undefined)
    request.on('end', () => {
      const result = verifyWebhook(Buffer.concat(chunks), request.headers, secret)
      requests += 1
      if (result.ok) {
        const session =
          'transaction_ref' in result.event.data ? String(result.event.data.transaction_ref) : ''
        const ids = idsOf.get(session) ?? new Set()
        idsOf.set(session, ids.add(String(request.headers['webhook-id'])))
      } else forged += 1
      response.end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    idsOf,
    requests: () => requests,
    forged: () => forged,
    trust(with_: string) {
      secret = with_
    },
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

const db = useDatabase()
const receivers: Awaited<ReturnType<typeof startCounter>>[] = []
let folder: string
let environment: NodeJS.ProcessEnv
let instance: ServiceProcess

function client<S extends DescService>(service: S): Client<S> {
  return grpcClient(service, instance.grpcUrl)
}

beforeAll(async () => {
  const certificate = makeCertificate()
  folder = await makeFolder('webhooks')
  const authority = join(folder, 'authority.pem')
  await writeFile(authority, certificate.cert)
  environment = {
    DATABASE_URL: db.url,
    NODE_EXTRA_CA_CERTS: authority,
    WEBHOOK_ALLOWED_CIDRS: '127.0.0.0/8',
    // Attempts in progress at a kill are sent again once their lease has ended.
    WEBHOOK_LEASE_SECONDS: '2',
  }
  instance = await startProcess(environment)
  for (let i = 0; i < ENDPOINTS; i++) receivers.push(await startCounter(certificate))
})
afterAll(async () => {
  await instance?.kill()
  await Promise.all(receivers.map((receiver) => receiver.close()))
  await rm(folder, { recursive: true, force: true })
})

/** Opens an account of a business with an endpoint at each receiver. @returns the account number */
async function openAccount(): Promise<string> {
  const { business } = await client(BusinessService).createBusiness({ name: 'Acme' })
  for (const receiver of receivers) {
    const { url } = receiver
    const businessId = business!.id
    const { secret } = await client(WebhookService).createEndpoint({ businessId, url })
    receiver.trust(secret)
  }
  const { accountNumber } = await openAccountOver(grpcTransport(instance.grpcUrl), {
    businessId: business!.id,
  })
  return accountNumber
}

/** Sends a batch until the current process acknowledges it. */
async function record(accountNumber: string, from: number): Promise<void> {
  const payments = Array.from({ length: BATCH }, (_, index) => ({
    bank: Bank.BANK_PROVIDUS,
    accountNumber,
    sessionId: `KILL-${from + index}`,
    amountMinor: BigInt(100 + from + index),
  }))
  await until(
    () =>
      client(TransactionService)
        .recordPayments({ payments }, { timeoutMs: 20_000 })
        .then(
          ({ results }) => results.every((result) => result.error === ''),
          () => false,
        ),
    60_000,
  )
}

/** The numbers of started batches after which the process is killed. */
function killPoints(batches: number): Set<number> {
  const points = new Set<number>()
  while (points.size < Math.min(KILLS, batches - 1)) {
    points.add(1 + Math.floor(random() * (batches - 1)))
  }
  return points
}

test(`no payment is lost in ${KILLS} kills (seed ${seed})`, async () => {
  const accountNumber = await openAccount()
  const batches = Math.ceil(PAYMENTS / BATCH)
  const points = killPoints(batches)
  let started = 0
  let restarting: Promise<unknown> = Promise.resolve()
  const restart = async () => {
    await instance.kill()
    instance = await startProcess(environment)
  }
  const send = async () => {
    while (started < batches) {
      const batch = started++
      const recorded = record(accountNumber, batch * BATCH)
      // The kill interrupts this batch, those of the other senders, and deliveries.
      if (points.has(batch)) restarting = restarting.then(restart)
      await recorded
    }
  }
  await Promise.all(Array.from({ length: SENDERS }, send))
  await restarting

  const total = batches * BATCH
  for (const receiver of receivers) {
    let before = -1
    while (receiver.idsOf.size < total) {
      expect(receiver.idsOf.size, 'payments received').toBeGreaterThan(before)
      before = receiver.idsOf.size
      await until(async () => receiver.idsOf.size > before, STALLED_MS)
    }
  }
  const first = receivers[0]!.idsOf
  for (const receiver of receivers) {
    expect(receiver.idsOf.size).toBe(total)
    expect(receiver.forged()).toBe(0)
    for (const [session, ids] of receiver.idsOf) {
      // Repeats have the same id, and it is the same at every endpoint.
      expect([...ids]).toEqual([...first.get(session)!])
      expect(ids.size).toBe(1)
    }
  }
  // Every acknowledged delivery is recorded as such, or sent again until it is.
  await until(async () => {
    const { rows } = await db.database.durablePool.query(
      `select count(*) filter (where state = 'DELIVERED')::int as delivered,
        count(*)::int as deliveries from webhook_delivery`,
    )
    return rows[0].delivered === total * ENDPOINTS && rows[0].deliveries === total * ENDPOINTS
  })
  const { rows } = await db.database.durablePool.query(
    'select count(*)::int as count from transaction',
  )
  expect(rows[0].count).toBe(total)
  const repeats = receivers.reduce((sum, receiver) => sum + receiver.requests() - total, 0)
  console.log(`${total} payments, ${points.size} kills, ${repeats} repeats, seed ${seed}`)
}, 600_000)
