import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Client, createClient } from '@connectrpc/connect'
import { onTestFinished } from 'vitest'
import type { Event } from '../../gen/inflow/event/v1/event_pb.ts'
import type { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { makeFolder } from '../support/folder.ts'
import { grpcClient, grpcTransport } from '../support/grpc-client.ts'
import { openBusinessOver } from '../support/opened-account.ts'
import { type ServiceProcess, startProcess } from '../support/process.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { makeCertificate } from '../webhooks/sender/certificate.ts'

/** Starts two instances of the service on one database, and a receiver of webhooks. The test stops them. */
export async function startInstances(databaseUrl: string) {
  const certificate = makeCertificate()
  const folder = await makeFolder('authority')
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const authority = join(folder, 'authority.pem')
  await writeFile(authority, certificate.cert)
  const environment = {
    NODE_EXTRA_CA_CERTS: authority,
    DATABASE_URL: databaseUrl,
    WEBHOOK_ALLOWED_CIDRS: '127.0.0.0/8',
    LOG_LEVEL: 'warn',
  }
  const start = () => startProcess(environment, true)
  const instances = await Promise.all([start(), start()])
  for (const instance of instances) onTestFinished(() => instance.kill())
  const receiver = await startReceiver(certificate)
  onTestFinished(() => receiver.close())
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
) {
  const payment = { bank: Bank.BANK_PROVIDUS, accountNumber, sessionId, amountMinor: 100n }
  return transactions.recordPayment(payment, { timeoutMs: 10_000 })
}

export const idsOf = (events: readonly Event[]) => events.map(({ id }) => id)

export const sessionsOf = (events: readonly Event[]) =>
  events.flatMap(({ payload }) => (payload.case === 'transaction' ? [payload.value.sessionId] : []))

/** The data of the webhooks that have arrived. */
export const webhooksAt = (receiver: Receiver) =>
  receiver.requests.map(({ rawBody }) => JSON.parse(rawBody).data)
