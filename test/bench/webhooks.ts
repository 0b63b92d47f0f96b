import { join } from 'node:path'
import { createClient } from '@connectrpc/connect'
import { createGrpcTransport } from '@connectrpc/connect-node'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import type { Bench } from './bench.ts'
import { type Contender, inTurn } from './in-turn.ts'
import type { ReceiverAnswer, ReceiverCommand, ReceiverReady } from './load/receiver.ts'
import { notes } from './notes.ts'
import { type Program, startProgram } from './program.ts'
import type { Result, Row } from './row.ts'
import { type ServiceProcess, startServiceProcess } from './service-process.ts'
import type { JobQueueCommand, JobQueueOptions } from './yardstick/job-queue.ts'

/** How many deliveries one round makes. */
const DELIVERIES = 10_000
const ROUND_LIMIT_MS = 120_000

/** What an endpoint, and all endpoints together, are sent at once; the yardsticks get as much. */
const CONCURRENCY_EACH = 10
const CONCURRENCY_ALL = 100

/** What a notification takes. */
const BODY_BYTES = 750

type Receiver = Program<ReceiverReady, ReceiverCommand, ReceiverAnswer>

export const webhooks: Row = {
  name: 'webhooks',
  async measure(bench) {
    return [...(await measure(bench, 1)), ...(await measure(bench, 50))]
  },
}

async function measure(bench: Bench, endpoints: number): Promise<readonly Result[]> {
  const receiver: Receiver = await startProgram('load/receiver.ts', {})
  bench.onEnd(receiver.stop)
  const urls = Array.from({ length: endpoints }, (_, i) => {
    return `http://127.0.0.1:${receiver.ready.port}/${i}`
  })
  const figures = await inTurn(
    {
      ours: await inflow(bench, receiver, urls),
      graphile: await jobQueue(bench, receiver, urls, 'graphile-worker'),
      boss: await jobQueue(bench, receiver, urls, 'pg-boss'),
    },
    { ...bench, before: bench.checkpoint },
  )
  const result = (yardstick: Result['yardstick'], atLeastTimes: number): Result => ({
    name: 'webhooks',
    what: `deliveries to ${endpoints} endpoint${endpoints > 1 ? 's' : ''}, with their log`,
    unit: '/s',
    ours: figures.ours,
    yardstick,
    target: { atLeastTimes },
    notes: notes(figures.ours),
  })
  return [result(figures.graphile, 1), result(figures.boss, 2)]
}

/** Embedded, as only then may a receiver be this machine, without TLS. */
async function inflow(
  bench: Bench,
  receiver: Receiver,
  urls: readonly string[],
): Promise<Contender> {
  const service = await startServiceProcess(bench, undefined, join(bench.folder, `w${urls.length}`))
  const pay = await openPayer(service, urls)
  return {
    name: 'Inflow',
    async measure() {
      const received = receiver.run({ requests: DELIVERIES }, ROUND_LIMIT_MS)
      await pay(DELIVERIES / urls.length)
      return { value: (await received).perSecond }
    },
  }
}

/** Makes a business with endpoints. @returns what makes payments into an account of it */
export async function openPayer(service: ServiceProcess, urls: readonly string[]) {
  const transport = createGrpcTransport({
    baseUrl: `http://${service.grpcAddress}`,
    interceptors: [
      (next) => (request) => {
        request.header.set('authorization', `Bearer ${service.adminToken}`)
        return next(request)
      },
    ],
  })
  const { business } = await createClient(BusinessService, transport).createBusiness({ name: 'B' })
  const businessId = business?.id ?? ''
  const { account } = await createClient(AccountService, transport).createAccount({
    businessId,
    reference: 'order-1',
    bank: Bank.BANK_9PSB,
    firstName: 'Ada',
    lastName: 'Obi',
    email: 'ada@example.com',
    phone: '08012345678',
  })
  const webhookClient = createClient(WebhookService, transport)
  for (const url of urls) await webhookClient.createEndpoint({ businessId, url })
  const transactions = createClient(TransactionService, transport)
  const accountNumber = account?.accountNumber ?? ''
  let number = 0
  return async (payments: number): Promise<void> => {
    for (let left = payments; left > 0; left -= 500) {
      const batch = Array.from({ length: Math.min(left, 500) }, () => {
        number += 1
        return { bank: Bank.BANK_9PSB, accountNumber, sessionId: `W${number}`, amountMinor: 100n }
      })
      await transactions.recordPayments({ payments: batch })
    }
  }
}

async function jobQueue(
  bench: Bench,
  receiver: Receiver,
  urls: readonly string[],
  kind: JobQueueOptions['kind'],
): Promise<Contender> {
  const options: JobQueueOptions = {
    kind,
    databaseUrl: await bench.createDatabase(),
    urls,
    concurrency: Math.min(CONCURRENCY_ALL, CONCURRENCY_EACH * urls.length),
    bodyBytes: BODY_BYTES,
  }
  const queue = await startProgram<undefined, JobQueueCommand, undefined>(
    'yardstick/job-queue.ts',
    options,
  )
  bench.onEnd(queue.stop)
  return {
    name: kind,
    async measure() {
      const received = receiver.run({ requests: DELIVERIES }, ROUND_LIMIT_MS)
      await queue.run({ jobs: DELIVERIES }, ROUND_LIMIT_MS)
      return { value: (await received).perSecond }
    },
  }
}
