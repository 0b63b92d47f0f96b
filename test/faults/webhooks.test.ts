import { expect, onTestFinished, test } from 'vitest'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { verifyWebhook } from '../../src/client/verify-webhook.ts'
import { useDatabase } from '../support/database.ts'
import { grpcTransport } from '../support/grpc-client.ts'
import { openBusinessOver } from '../support/opened-account.ts'
import { type ServiceProcess, startProcess } from '../support/process.ts'
import { generator, SEED } from '../support/random.ts'
import { waitUntil } from '../support/wait-for.ts'
import { client, startHttpsReceiver, webhookIdsBySession } from './scene.ts'

const PAYMENTS = Number(process.env['WEBHOOK_PAYMENTS'] ?? 1_000)
const KILLS = Number(process.env['WEBHOOK_KILLS'] ?? 2)
const PATHS = ['/0', '/1', '/2']
const BATCH = 50
const SENDERS = 3

/** If no delivery is recorded for this long, the test fails. */
const STALLED_MS = 600_000

const random = generator(SEED)

const db = useDatabase()
let instance: ServiceProcess

/** Sends a batch until the current process acknowledges it. */
async function record(accountNumber: string, from: number): Promise<void> {
  const payments = Array.from({ length: BATCH }, (_, index) => ({
    bank: Bank.BANK_PROVIDUS,
    accountNumber,
    sessionId: `KILL-${from + index}`,
    amountMinor: BigInt(100 + from + index),
  }))
  await waitUntil(() =>
    client(TransactionService, instance)
      .recordPayments({ payments }, { timeoutMs: 20_000 })
      .then(
        ({ results }) => results.every((result) => result.error === ''),
        () => false,
      ),
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

async function count(from: string): Promise<number> {
  const { rows } = await db.database.durablePool.query(`select count(*)::int as count from ${from}`)
  return rows[0].count
}

test(`no payment is lost in ${KILLS} kills`, async () => {
  const { receiver, environment } = await startHttpsReceiver()
  const start = async () => {
    // Attempts in progress at a kill are sent again once their lease has ended.
    const settings = { ...environment, DATABASE_URL: db.url, WEBHOOK_LEASE_SECONDS: '10' }
    instance = await startProcess(settings)
  }
  await start()
  onTestFinished(() => instance.kill())
  const { businessId, accountNumber } = await openBusinessOver(grpcTransport(instance.grpcUrl))
  const secrets = new Map<string, string>()
  for (const path of PATHS) {
    const endpoint = { businessId, url: receiver.url + path, kinds: ['PAYMENT_NOTIFICATION'] }
    const { secret } = await client(WebhookService, instance).createEndpoint(endpoint)
    secrets.set(path, secret)
  }
  const batches = Math.ceil(PAYMENTS / BATCH)
  const points = killPoints(batches)
  let started = 0
  let restarting: Promise<unknown> = Promise.resolve()
  const restart = async () => {
    await instance.kill()
    await start()
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

  // Every acknowledged delivery is recorded as such, or sent again until it is.
  const total = batches * BATCH
  const countDelivered = () => count("webhook_delivery where state = 'DELIVERED'")
  for (let before = -1; before < total * PATHS.length; ) {
    const last = before
    await waitUntil(async () => (await countDelivered()) > last, STALLED_MS)
    before = await countDelivered()
  }
  expect(await count('webhook_delivery')).toBe(total * PATHS.length)
  expect(await count('transaction')).toBe(total)
  const first = webhookIdsBySession(receiver, PATHS[0])
  expect(first.size).toBe(total)
  // Repeats have the same id, and it is the same at every endpoint.
  expect([...first.values()].filter(({ size }) => size !== 1)).toEqual([])
  for (const path of PATHS) expect(webhookIdsBySession(receiver, path)).toEqual(first)
  for (const { path, headers, rawBody, at } of receiver.requests) {
    expect(verifyWebhook(rawBody, headers, secrets.get(path)!, { now: () => at })).toMatchObject({
      ok: true,
    })
  }
  const repeats = receiver.requests.length - total * PATHS.length
  console.log(`${total} payments, ${points.size} kills, ${repeats} repeats`)
})
