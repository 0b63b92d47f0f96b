import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import { mkdirSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { describe, expect, onTestFinished, test } from 'vitest'
import { EventService } from '../../../gen/inflow/event/v1/event_service_pb.ts'
import { TransactionService } from '../../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { DeliveryStatus } from '../../../gen/inflow/webhook/v1/delivery_pb.ts'
import { EndpointProfile, LegacySignature } from '../../../gen/inflow/webhook/v1/endpoint_pb.ts'
import {
  type RehearsalSummary,
  RehearsalVerdict,
} from '../../../gen/inflow/webhook/v1/rehearsal_pb.ts'
import { WebhookService } from '../../../gen/inflow/webhook/v1/webhook_service_pb.ts'
import { temporaryFolder } from '../../support/folder.ts'
import { freePort } from '../../support/free-port.ts'
import { startServer } from '../../support/program.ts'
import { type Answer, type ReceivedRequest, startReceiver } from '../../support/receiver.ts'
import { useService } from '../../support/service.ts'
import { waitFor } from '../../support/wait-for.ts'
import { newBusiness } from '../../transactions/variance/fixture.ts'
import { installed } from '../installed.ts'

const service = useService()

/** What such receivers have in their environment. */
const SECRET = 'sk_live_9f86d081884c7d659a2feaa0c55ad015'

/** What is credited, by the interbank reference of the payment. */
type Credits = Map<string, string>

interface Receiver {
  readonly url: string
  readonly credits: () => Credits
}

interface Case {
  /** Starts it; undefined: its program is not installed. */
  readonly start: (() => Promise<Receiver>) | undefined
  readonly endpoint?: {
    readonly legacySignature?: LegacySignature
    readonly eventName?: string
    readonly payerAsArray?: boolean
    readonly kinds?: string[]
  }
  /** What it credits for a payment of 1,000 naira. */
  readonly credit: string
}

/** Starts a receiver in this process. */
function inNode(handle: (request: ReceivedRequest, credits: Credits) => Answer) {
  return async (): Promise<Receiver> => {
    const credits: Credits = new Map()
    const receiver = await startReceiver()
    onTestFinished(receiver.close)
    receiver.answer((request) => handle(request, credits))
    return { url: receiver.url, credits: () => credits }
  }
}

/** Starts a program that keeps a file for each payment. @param interpreter undefined: it is not installed */
function program(
  name: string,
  interpreter: string | undefined,
  args: (port: string) => readonly string[],
) {
  if (interpreter === undefined) return undefined
  return async (): Promise<Receiver> => {
    const store = join(temporaryFolder(), name)
    mkdirSync(store)
    const port = await freePort()
    const url = `http://127.0.0.1:${port}/`
    const env = { WIAXY_SECRET_KEY: SECRET, STORE: store }
    await startServer([interpreter, ...args(port)], env, url)
    const credits = () =>
      new Map(readdirSync(store).map((file) => [file, readFileSync(join(store, file), 'utf8')]))
    return { url, credits }
  }
}

const at = (file: string) => join(import.meta.dirname, file)
const php = (file: string) =>
  program(file, installed.php, (port) => ['-S', `127.0.0.1:${port}`, at(file)])

const md5 = createHash('md5').update(SECRET).digest('hex')
const hmac = (text: string) => createHmac('sha256', SECRET).update(text).digest('hex')

/** As a middleware of Express with the raw body does it. */
function isGenuine({ headers, rawBody }: ReceivedRequest): boolean {
  const timestamp = Number(headers['x-wiaxy-timestamp'])
  if (!(Math.abs(Date.now() / 1_000 - timestamp) <= 300)) return false
  const [given, expected] = [
    Buffer.from(`${headers['x-wiaxy-signature-256']}`),
    Buffer.from(hmac(`${timestamp}.${rawBody}`)),
  ]
  return given.length === expected.length && timingSafeEqual(given, expected)
}

function creditOnce(credits: Credits, reference: string, text: string): void {
  if (credits.has(reference)) return
  credits.set(reference, text)
}

const CASES: Readonly<Record<string, Case>> = {
  'Express, raw body, five minutes': {
    start: inNode((request, credits) => {
      if (!isGenuine(request)) return { status: 401 }
      const { event, data } = JSON.parse(request.rawBody)
      if (event !== 'PAYMENT_NOTIFICATION') return { status: 200 }
      creditOnce(
        credits,
        data.transaction_ref,
        `${Number.parseFloat(data.amount)} ${data.customer.email}`,
      )
      return { status: 200 }
    }),
    credit: '1000 ada@example.com',
  },
  'Next.js, payer as an array': {
    start: inNode((request, credits) => {
      if (request.headers['x-wiaxy-signature'] !== md5) return { status: 401 }
      const { event, data } = JSON.parse(request.rawBody)
      const [payer] = data.payer
      if (event === 'PAYMENT_NOTIFICATION') {
        creditOnce(credits, data.wiaxy_ref, `${data.amount} ${payer.first_name}|${payer.last_name}`)
      }
      return { status: 200, body: '{"received":true}' }
    }),
    endpoint: { legacySignature: LegacySignature.MD5, payerAsArray: true },
    credit: '1000.00 BOLA|ADE JOHN',
  },
  'NestJS, the old spelling of the event': {
    start: inNode((request, credits) => {
      if (request.headers['x-wiaxy-signature'] !== md5) return { status: 401 }
      const { event, data } = JSON.parse(request.rawBody)
      if (event === 'PAYMENT_NOTIFIFICATION') {
        creditOnce(credits, data.transaction_ref, `${data.amount} ${data.payer.account_name}`)
      }
      return { status: 201 }
    }),
    endpoint: { legacySignature: LegacySignature.MD5, eventName: 'PAYMENT_NOTIFIFICATION' },
    credit: '1000.00 BOLA ADE JOHN',
  },
  'the type alone, sent every kind': {
    start: inNode((request, credits) => {
      if (!isGenuine(request)) return { status: 401 }
      const { data } = JSON.parse(request.rawBody)
      if (data.type === 'RESERVED_ACCOUNT_TRANSACTION') {
        creditOnce(credits, data.aspfiy_ref, `${data.amount} ${data.payer.bank_id}`)
      }
      return { status: 200 }
    }),
    endpoint: { kinds: ['PAYMENT_NOTIFICATION', 'PAYMENT_REVERSED', 'PAYMENT_ON_HOLD'] },
    credit: '1000.00 000013',
  },
  'plain PHP, MD5': {
    start: php('plain.php'),
    endpoint: { legacySignature: LegacySignature.MD5 },
    credit: '1000.00 BOLA ADE JOHN 0123456789',
  },
  Laravel: { start: php('laravel.php'), credit: '1000.00 Ada Mary Obi ada@example.com' },
  'WordPress, HMAC of the body, the type alone': {
    start: php('wordpress.php'),
    endpoint: {
      legacySignature: LegacySignature.HMAC_BODY,
      kinds: ['PAYMENT_NOTIFICATION', 'PAYMENT_REVERSED', 'PAYMENT_ON_HOLD'],
    },
    credit: '1000.00 BOLA ADE JOHN 2026-11-20 10:00:00',
  },
  'Flask, works after it answers': {
    start: program('flask', installed.python, (port) => [at('flask.py'), port]),
    credit: '1000.00 GTBank',
  },
}

const PAID = {
  paidAt: timestampFromMs(Date.UTC(2026, 10, 20, 9)),
  payer: {
    name: 'BOLA ADE JOHN',
    accountNumber: '0123456789',
    bankCode: '000013',
    bankName: 'GTBank',
  },
}

describe.each(Object.entries(CASES))('a receiver like %s', (_, { start, endpoint, credit }) => {
  test.skipIf(!start)('credits each payment once, and nothing else', async () => {
    const webhooks = service.client(WebhookService)
    const shop = await newBusiness(service)
    const receiver = await start!()
    const created = await webhooks.createEndpoint({
      businessId: shop.businessId,
      url: receiver.url,
      ...endpoint,
      profile: EndpointProfile.WIAXY,
      textSecret: SECRET,
    })
    expect(created.secret).toBe('')
    const endpointId = created.endpoint!.id
    const names = { firstName: 'Ada Mary', lastName: 'Obi', email: 'ada@example.com' }
    const account = await shop.open(names)
    const sessions: string[] = []
    const pay = async () => {
      const { sessionId, transaction } = await account.pay(1_000, PAID)
      sessions.push(sessionId)
      return { sessionId, transaction }
    }
    const deliveries = async () => (await webhooks.listDeliveries({ endpointId })).deliveries
    const delivered = (count: number) =>
      waitFor(async () => {
        const found = await deliveries()
        expect(found.filter(({ status }) => status === DeliveryStatus.DELIVERED)).toHaveLength(
          count,
        )
      })

    // A payment, twice reported, and once sent again.
    const { sessionId } = await pay()
    await account.pay(1_000, { ...PAID, sessionId })
    await delivered(1)
    const [first] = await deliveries()
    await webhooks.redeliver({ deliveryId: first!.id })
    // One that is reversed, one that stays on hold, and one that is accepted.
    const { transaction } = await pay()
    const client = service.client(TransactionService)
    await client.reverseTransaction({ transactionId: transaction.id, reason: 'chargeback' })
    const held = await shop.open({ ...names, amount: 2_000, amountRule: 'EXACT' }, 'held')
    await held.pay(1_000, PAID)
    const accepted = await shop.open({ ...names, amount: 2_000, amountRule: 'EXACT' }, 'accepted')
    const { sessionId: acceptedId } = await accepted.pay(1_000, PAID)
    await shop.call('acceptPayment', { session_id: acceptedId })
    sessions.push(acceptedId)
    // One in another epoch.
    await service.client(EventService).bumpEpoch({})
    await pay()

    const others = endpoint?.kinds ? 3 : 0
    await delivered(sessions.length + others)
    await waitFor(async () => {
      const [again] = (await deliveries()).slice(-1)
      expect(again?.status).toBe(DeliveryStatus.DELIVERED)
      expect(again?.attemptCount).toBeGreaterThan(1)
    })
    await waitFor(() =>
      expect(receiver.credits()).toEqual(new Map(sessions.map((each) => [each, credit]))),
    )
  })
})

test.each([
  ['Express, raw body, five minutes', RehearsalVerdict.PASSED, 203],
  // Weak ones credit the payment that was signed too long ago.
  ['Next.js, payer as an array', RehearsalVerdict.WARNING, 204],
])('a receiver like %s has the books that a rehearsal states', async (name, verdict, credited) => {
  const { start, endpoint } = CASES[name]!
  const { id: businessId } = await service.business()
  const receiver = await start!()
  const webhooks = service.client(WebhookService)
  const { endpoint: added } = await webhooks.createEndpoint({
    businessId,
    url: receiver.url,
    live: false,
    ...endpoint,
    profile: EndpointProfile.WIAXY,
    textSecret: SECRET,
  })
  let summary: RehearsalSummary | undefined
  for await (const { progress } of webhooks.rehearse({ endpointId: added!.id })) {
    if (progress.case === 'summary') summary = progress.value
  }
  expect(summary).toMatchObject({ verdict, creditedCount: 203 })
  await waitFor(() => expect(receiver.credits().size).toBe(credited))
})
