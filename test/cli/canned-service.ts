import { once } from 'node:events'
import { createServer, type ServerHttp2Session } from 'node:http2'
import type { AddressInfo } from 'node:net'
import type { DescMessage, MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { Code, ConnectError, type ConnectRouter } from '@connectrpc/connect'
import { connectNodeAdapter } from '@connectrpc/connect-node'
import { onTestFinished } from 'vitest'
import { type AccountSchema, AccountStatus } from '../../gen/inflow/account/v1/account_pb.ts'
import { AccountService } from '../../gen/inflow/account/v1/account_service_pb.ts'
import type { BusinessSchema, KeySchema } from '../../gen/inflow/business/v1/business_pb.ts'
import { BusinessService } from '../../gen/inflow/business/v1/business_service_pb.ts'
import type { EventSchema } from '../../gen/inflow/event/v1/event_pb.ts'
import { EventService, type SubscribeRequest } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { SandboxService } from '../../gen/inflow/sandbox/v1/sandbox_service_pb.ts'
import {
  type TransactionSchema,
  TransactionStatus,
} from '../../gen/inflow/transaction/v1/transaction_pb.ts'
import {
  RecordOutcome,
  TransactionService,
} from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { Bank } from '../../gen/inflow/type/v1/bank_pb.ts'
import type { EndpointSchema } from '../../gen/inflow/webhook/v1/endpoint_pb.ts'
import { WebhookService } from '../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { Fault, invalidFields, type Reason } from '../../src/errors.ts'
import { toConnectError } from '../../src/server/status.ts'

/** A service for the command to talk to. Everything that the tests ask of one is here. */
export interface CannedService {
  readonly url: string
  readonly token: string
  readonly businessId: string
  /** What was asked, the method's name first. */
  readonly calls: readonly (readonly [string, unknown])[]
  /** Adds an event, and gives it to who listens. */
  publish(): void
  /** Cuts every connection, as a crash does. */
  cut(): void
  /** Answers the next call with a fault. */
  refuseNext(reason: Reason): void
}

const TOKEN = 'test-token'
const BUSINESS_ID = 'biz_demo'
const AT = timestampFromDate(new Date('2026-11-20T10:00:00Z'))

const business: MessageInitShape<typeof BusinessSchema> = {
  id: BUSINESS_ID,
  name: 'Acme\u0301 Stores',
  alias: 'Acme',
  createdAt: AT,
}
const key: MessageInitShape<typeof KeySchema> = {
  id: 'key_1',
  businessId: BUSINESS_ID,
  prefix: 'sk_live_1',
  createdAt: AT,
}
const account: MessageInitShape<typeof AccountSchema> = {
  id: 'acc_1',
  businessId: BUSINESS_ID,
  reference: 'R-ACCOUNT',
  merchantReference: 'order-1',
  bank: Bank.BANK_9PSB,
  bankName: '9 Payment Service Bank',
  accountNumber: '0123456789',
  accountName: 'Acme/Ada Obi',
  status: AccountStatus.ACTIVE,
  customer: { firstName: 'Ada', lastName: 'Obi', email: 'ada@example.com', phone: '08012345678' },
  createdAt: AT,
}
const transaction: MessageInitShape<typeof TransactionSchema> = {
  id: 'txn_1',
  businessId: BUSINESS_ID,
  accountReference: 'R-ACCOUNT',
  sessionId: 'SESSION-1',
  amountMinor: 150_050n,
  currency: 'NGN',
  status: TransactionStatus.SUCCESS,
  bank: Bank.BANK_9PSB,
  accountNumber: '0123456789',
  accountName: 'Acme/Ada Obi',
  customerName: 'Ada Obi',
  customerEmail: 'ada@example.com',
  paidAt: AT,
  // Payers write their own names: this one would clear the screen.
  payer: { name: 'Chidi\u001b[2J' },
}
const endpoint: MessageInitShape<typeof EndpointSchema> = {
  id: 'ep_1',
  businessId: BUSINESS_ID,
  url: 'https://shop.example.com/hooks',
  kinds: ['PAYMENT_NOTIFICATION'],
  createdAt: AT,
}

/** Starts it on a free port, until the test ends. */
export async function startCannedService(): Promise<CannedService> {
  const calls: [string, unknown][] = []
  const log = createLog()
  const sessions = new Set<ServerHttp2Session>()
  let refusal: Reason | undefined
  const routes = (router: ConnectRouter) => addRoutes(router, log)
  const server = createServer(
    connectNodeAdapter({
      routes,
      interceptors: [
        (next) => async (request) => {
          if (!request.stream) calls.push([request.method.name, request.message])
          else calls.push([request.method.name, undefined])
          const reason = refusal
          refusal = undefined
          if (reason) throw toConnectError(new Fault(reason, 'Not now'), 'req_1')
          if (request.header.get('authorization') !== `Bearer ${TOKEN}`) {
            throw toConnectError(new Fault('unauthorized', 'No such token'), 'req_1')
          }
          return next(request)
        },
      ],
    }),
  )
  server.on('session', (session) => {
    sessions.add(session)
    session.once('close', () => sessions.delete(session))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const cut = () => {
    for (const session of sessions) session.destroy()
  }
  onTestFinished(() => {
    server.close()
    cut()
  })
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    token: TOKEN,
    businessId: BUSINESS_ID,
    calls,
    publish: log.publish,
    cut,
    refuseNext: (reason) => {
      refusal = reason
    },
  }
}

function addRoutes(router: ConnectRouter, log: Log): void {
  router.service(BusinessService, {
    createBusiness: () => ({ business, secretKey: 'sk_live_secret' }),
    listBusinesses: () => ({ businesses: [business], nextPageToken: 'page-2' }),
    issueKey: () => ({ key, secretKey: 'sk_live_secret' }),
    revokeKey({ keyId }) {
      if (keyId === 'bare') throw new ConnectError('Bare', Code.PermissionDenied)
      return { key: { ...key, revokedAt: AT } }
    },
    listKeys: () => ({ keys: [key] }),
  })
  router.service(AccountService, {
    createAccount(request) {
      if (request.email.includes('@')) return { account, replayed: request.reference === 'again' }
      throw fault(
        invalidFields([
          { field: 'email', message: 'must be valid' },
          { field: 'phone', message: 'must be Nigerian' },
        ]),
      )
    },
    getAccount: () => ({ account }),
    listAccounts: () => ({ accounts: [account] }),
  })
  router.service(TransactionService, {
    getTransaction({ sessionId }) {
      if (sessionId === 'SESSION-1') return { transaction }
      throw fault(new Fault('not_found', 'There is no such transaction'))
    },
    listTransactions(request) {
      const other = { ...transaction, sessionId: 'S2', amountMinor: 7n, settled: true }
      return { transactions: request.reference === 'none' ? [] : [transaction, other] }
    },
  })
  router.service(SandboxService, {
    simulateTransfer({ accountNumber, sessionId, amountMinor }) {
      if (accountNumber === '0000000000') {
        return { outcome: RecordOutcome.UNMATCHED, sessionId: 'SESSION-0' }
      }
      const found = { ...transaction, sessionId: sessionId || 'SESSION-1', amountMinor }
      return { outcome: RecordOutcome.RECORDED, transaction: found, sessionId: found.sessionId }
    },
  })
  router.service(WebhookService, {
    createEndpoint: ({ url, kinds }) => ({
      endpoint: { ...endpoint, url, kinds },
      secret: 'whsec_1',
    }),
    listEndpoints: () => ({ endpoints: [endpoint] }),
    deleteEndpoint: () => ({}),
  })
  router.service(EventService, {
    async *subscribe({ start }, { signal }) {
      for await (const event of log.read(start, signal))
        yield { item: { case: 'event', value: event } }
    },
  })
}

function fault(cause: Fault) {
  return toConnectError(cause, 'req_1')
}

type EventInit = MessageInitShape<typeof EventSchema & DescMessage>
type Log = ReturnType<typeof createLog>

/** Events 1, 2, 3 …; the cursor of each is its position. */
function createLog() {
  let length = 0
  let wake = Promise.withResolvers<void>()
  const eventAt = (position: number): EventInit => ({
    id: `evt_${position}`,
    cursor: `c${position}`,
    position: BigInt(position),
    businessId: BUSINESS_ID,
    businessSequence: BigInt(position),
    kind: 'PAYMENT_NOTIFICATION',
    occurredAt: AT,
    payload: { case: 'transaction', value: transaction } as never,
  })
  return {
    publish() {
      length += 1
      wake.resolve()
      wake = Promise.withResolvers<void>()
    },
    async *read(start: SubscribeRequest['start'], signal: AbortSignal) {
      let at = start.case === 'cursor' ? Number(start.value.slice(1)) : start.case ? 0 : length
      while (!signal.aborted) {
        while (at < length) {
          at += 1
          yield eventAt(at)
        }
        const stopped = new Promise((done) => signal.addEventListener('abort', done))
        await Promise.race([wake.promise, stopped])
      }
    },
  }
}
