import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { type Client, type Code, ConnectError, type createClient } from '@connectrpc/connect'
import { onTestFinished } from 'vitest'
import type { Event } from '../../gen/inflow/event/v1/event_pb.ts'
import type { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { SubscriptionRefused, subscribe } from '../../src/client/subscribe.ts'
import { makeCertificate } from '../support/certificate.ts'
import { temporaryFolder } from '../support/folder.ts'
import { grpcClient, grpcTransport } from '../support/grpc-client.ts'
import { openBusinessOver } from '../support/opened-account.ts'
import { type ServiceProcess, startProcess } from '../support/process.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { ADMIN_TOKEN } from '../support/service.ts'

/** Starts a receiver of webhooks, which the test stops. @returns it, and the settings of services that send to it */
export async function startHttpsReceiver() {
  const certificate = makeCertificate()
  const folder = temporaryFolder()
  const authority = join(folder, 'authority.pem')
  await writeFile(authority, certificate.cert)
  const receiver = await startReceiver(certificate)
  onTestFinished(() => receiver.close())
  const environment = { NODE_EXTRA_CA_CERTS: authority, WEBHOOK_ALLOWED_CIDRS: '127.0.0.0/8' }
  return { receiver, environment }
}

/** Starts two instances of the service on one database, and a receiver of webhooks. The test stops them. */
export async function startInstances(databaseUrl: string) {
  const { receiver, environment } = await startHttpsReceiver()
  const settings = { ...environment, DATABASE_URL: databaseUrl, LOG_LEVEL: 'warn' }
  const start = () => startProcess(settings, true)
  const instances = await Promise.all([start(), start()])
  for (const instance of instances) onTestFinished(() => instance.kill())
  return { instances, receiver }
}

/** A client of one instance, with the admin token. */
export const client = <S extends Parameters<typeof createClient>[0]>(
  service: S,
  { grpcUrl }: ServiceProcess,
) => grpcClient(service, grpcUrl)

/** Creates a business with an account, and an endpoint that gets its payments. */
export async function openNotified(instance: ServiceProcess, receiver: Receiver) {
  const { businessId, accountNumber } = await openBusinessOver(grpcTransport(instance.grpcUrl))
  const endpoint = { businessId, url: receiver.url, kinds: ['PAYMENT_NOTIFICATION'] }
  await client(WebhookService, instance).createEndpoint(endpoint)
  return { businessId, accountNumber }
}

/** Records a payment of one naira. */
export function recordPayment(
  transactions: Client<typeof TransactionService>,
  accountNumber: string,
  sessionId: string,
  timeoutMs = 10_000,
) {
  const payment = { bank: Bank.BANK_PROVIDUS, accountNumber, sessionId, amountMinor: 100n }
  return transactions.recordPayment(payment, { timeoutMs })
}

/**
 * Pays until it is stopped, with a pause after an acknowledged and a refused payment. A payment is repeated until it is
 * acknowledged.
 */
export function keepPaying(
  pay: (sessionId: string, payer: number) => Promise<unknown>,
  name: string,
  { repeats = true, payers = 8, pauseMs = 0, refusedMs = 100 } = {},
) {
  const acknowledged: { sessionId: string; startedMs: number; atMs: number }[] = []
  const refusals: { code: Code; tookMs: number }[] = []
  let stopped = false
  const run = async (payer: number) => {
    for (let number = 0; !stopped; ) {
      const sessionId = `${name}-${payer}-${number}`
      const startedMs = performance.now()
      try {
        await pay(sessionId, payer)
        acknowledged.push({ sessionId, startedMs, atMs: Date.now() })
        number += 1
        if (pauseMs > 0) await pause(pauseMs)
      } catch (error) {
        const { code } = ConnectError.from(error)
        refusals.push({ code, tookMs: performance.now() - startedMs })
        if (!repeats) number += 1
        await pause(refusedMs)
      }
    }
  }
  const runs = Array.from({ length: payers }, (_, payer) => run(payer))
  return {
    acknowledged,
    refusals,
    async stop() {
      stopped = true
      await Promise.all(runs)
    },
  }
}

/** What `/readyz` of an instance says. */
export async function readyz({ httpUrl }: Pick<ServiceProcess, 'httpUrl'>) {
  const response = await fetch(`${httpUrl}/readyz`)
  return { code: response.status, body: await response.json() }
}

export const seconds = (ms: number) => `${(ms / 1_000).toFixed(1)} s`

/** A subscriber: what it has received, and why it was refused. */
export interface Follower {
  readonly events: readonly Event[]
  readonly refused: SubscriptionRefused | undefined
}

/** Follows the log at one instance, from its beginning or a cursor, until it is refused or the test ends. */
export function follow({ grpcAddress }: Pick<ServiceProcess, 'grpcAddress'>, cursor?: string) {
  const events: Event[] = []
  const state = { events, refused: undefined as SubscriptionRefused | undefined }
  const stop = new AbortController()
  onTestFinished(() => stop.abort())
  const start = cursor ? { case: 'cursor', value: cursor } : { case: 'beginning', value: true }
  const run = async () => {
    for await (const event of subscribe({
      addresses: [grpcAddress],
      token: ADMIN_TOKEN,
      retryMaxMs: 500,
      signal: stop.signal,
      start: start as Parameters<typeof subscribe>[0]['start'],
    })) {
      events.push(event)
    }
  }
  run().catch((error: unknown) => {
    if (!(error instanceof SubscriptionRefused)) throw error
    state.refused = error
  })
  return state satisfies Follower
}

export const idsOf = (events: readonly Event[]) => events.map(({ id }) => id)

export const sessionsOf = (events: readonly Event[]) =>
  events.flatMap(({ payload }) => (payload.case === 'transaction' ? [payload.value.sessionId] : []))

/** The data of the webhooks that have arrived. */
export const webhooksAt = (receiver: Receiver) =>
  receiver.requests.map(({ rawBody }) => JSON.parse(rawBody).data)

/** The ids of the webhooks of each payment that have arrived, at a path or at all. */
export function webhookIdsBySession(
  { requests }: Receiver,
  at?: string,
): ReadonlyMap<string, ReadonlySet<string>> {
  const ids = new Map<string, Set<string>>()
  for (const { path, rawBody, headers } of requests) {
    if (at !== undefined && path !== at) continue
    const session = String(JSON.parse(rawBody).data.transaction_ref ?? '')
    ids.set(session, (ids.get(session) ?? new Set()).add(String(headers['webhook-id'])))
  }
  return ids
}
