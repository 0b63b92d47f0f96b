import { Webhook } from 'standardwebhooks'
import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { ENTITIES } from '../../../src/app/entities.ts'
import { systemClock } from '../../../src/core/clock.ts'
import type { Database } from '../../../src/postgres/orm.ts'
import { openDatabase } from '../../../src/postgres/orm.ts'
import type { Runtime } from '../../../src/postgres/runtime.ts'
import type { Webhooks, WebhooksOptions } from '../../../src/webhooks/webhooks.ts'
import { useDatabase } from '../../support/database.ts'
import { asOperator } from '../../support/operator.ts'
import { type Receiver, startReceiver } from '../../support/receiver.ts'
import {
  accountEvent,
  addBusiness,
  logEvents,
  openWebhooks,
  paymentEvent,
  until,
} from '../fixture.ts'
import { ATTEMPT_LOG } from '../harness.ts'

const db = useDatabase()
let database: Database
const closing: (() => Promise<unknown>)[] = []

beforeAll(() => {
  database = db.database
})
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close()
})

async function receiver(): Promise<Receiver> {
  const started = await startReceiver()
  closing.push(started.close)
  return started
}

function started(options: Partial<WebhooksOptions & Runtime> = {}, on = database): Webhooks {
  const webhooks = openWebhooks(on, options)
  webhooks.start()
  closing.push(webhooks.stop)
  return webhooks
}

async function addEndpoint(
  webhooks: Webhooks,
  businessId: string,
  endpointUrl: string,
  kinds: string[] = [],
) {
  const response = await webhooks.rpc.createEndpoint(
    { businessId, url: endpointUrl, kinds, description: '' } as never,
    asOperator,
  )
  return { id: response.endpoint!.id!, secret: response.secret! }
}

async function deliveries(endpointId: string) {
  const result = await database.durablePool.query(
    `select d.state, d.attempts, d.completed_at,
      ${ATTEMPT_LOG} as log
     from webhook_delivery d where d.endpoint_id = $1 order by d.position`,
    [endpointId],
  )
  return result.rows
}

/** Waits for the first delivery of an endpoint to complete. */
function completed(endpointId: string) {
  return until(async () => {
    const [first] = await deliveries(endpointId)
    return first?.completed_at ? first : undefined
  })
}

describe('an event', () => {
  test('is signed and delivered to the endpoint once', async () => {
    const webhooks = started()
    const peer = await receiver()
    const business = await addBusiness(database)
    const { id, secret } = await addEndpoint(webhooks, business, `${peer.url}/hook?a=1`)
    const event = paymentEvent(business)
    await logEvents(database, [event])
    webhooks.wake()

    const request = await peer.next()
    expect(request.path).toBe('/hook?a=1')
    expect(request.headers['content-type']).toBe('application/json')
    expect(request.headers['user-agent']).toBe('Inflow-Webhooks/1')
    expect(request.headers['webhook-id']).toBe(event.id)
    const verified = new Webhook(secret).verify(
      request.rawBody,
      request.headers as Record<string, string>,
    )
    expect(verified).toMatchObject({ event: 'PAYMENT_NOTIFICATION', data: { sequence: 1 } })
    const row = await completed(id)
    expect(row).toMatchObject({ attempts: 1, log: [{ number: 1, status: 200, error: '' }] })
    expect(peer.requests).toHaveLength(1)
  })

  test('goes to every endpoint of its business for the kind, and to no other', async () => {
    const webhooks = started()
    const [every, accounts, payments, foreign] = [
      await receiver(),
      await receiver(),
      await receiver(),
      await receiver(),
    ]
    const business = await addBusiness(database)
    await addEndpoint(webhooks, business, every.url)
    await addEndpoint(webhooks, business, accounts.url, ['ACCOUNT_CREATED'])
    await addEndpoint(webhooks, business, payments.url, ['PAYMENT_NOTIFICATION'])
    const { id: foreignId } = await addEndpoint(webhooks, await addBusiness(database), foreign.url)
    const events = [accountEvent(business), paymentEvent(business), accountEvent(business)]
    await logEvents(database, events)
    webhooks.wake()

    await Promise.all([
      every.waitFor((requests) => requests.length === 1),
      accounts.waitFor((requests) => requests.length === 2),
      payments.waitFor((requests) => requests.length === 1),
    ])
    const sequences = (peer: Receiver) =>
      peer.requests.map((request) => JSON.parse(request.rawBody).data.sequence).sort()
    expect(sequences(every)).toEqual([2])
    expect(sequences(accounts)).toEqual([1, 3])
    expect(sequences(payments)).toEqual([2])
    // Deliveries are made for all endpoints at once.
    expect(await deliveries(foreignId)).toEqual([])
  })

  test('from before the endpoint was created is not sent to it', async () => {
    const webhooks = openWebhooks(database)
    closing.push(webhooks.stop)
    const peer = await receiver()
    const business = await addBusiness(database)
    await logEvents(database, [paymentEvent(business)])
    await addEndpoint(webhooks, business, peer.url)
    const later = paymentEvent(business)
    await logEvents(database, [later])
    webhooks.start()
    expect((await peer.next()).headers['webhook-id']).toBe(later.id)
    expect(peer.requests).toHaveLength(1)
  })

  test('is delivered by polling without a wake-up', async () => {
    const webhooks = started()
    const peer = await receiver()
    const business = await addBusiness(database)
    await addEndpoint(webhooks, business, peer.url)
    await logEvents(database, [paymentEvent(business)])
    await peer.next()
  })

  test('is dispatched only once by two instances', async () => {
    const one = started()
    const other = started()
    const peer = await receiver()
    const business = await addBusiness(database)
    const { id } = await addEndpoint(one, business, peer.url)
    const events = Array.from({ length: 300 }, () => paymentEvent(business))
    for (let at = 0; at < events.length; at += 30) {
      await logEvents(database, events.slice(at, at + 30))
      one.wake()
      other.wake()
    }
    await until(async () => (await deliveries(id)).filter((d) => d.completed_at).length === 300)
    const ids = peer.requests.map((request) => request.headers['webhook-id'])
    expect([...ids].sort()).toEqual(events.map((event) => event.id).sort())
  })
})

describe('a failed attempt', () => {
  test('is retried with the same id and a new timestamp until it is acknowledged', async () => {
    const peer = await receiver()
    // A second later with each request.
    const now = () => systemClock.now() + 1_000 * peer.requests.length
    const webhooks = started({ clock: { now } })
    peer.answer(() =>
      peer.requests.length < 3 ? { status: 500, body: 'no \0 way' } : { status: 204 },
    )
    const business = await addBusiness(database)
    const { id, secret } = await addEndpoint(webhooks, business, peer.url)
    await logEvents(database, [paymentEvent(business)])
    webhooks.wake()
    await peer.waitFor((requests) => requests.length === 3)
    const row = await completed(id)
    expect(row).toMatchObject({
      state: 'DELIVERED',
      attempts: 3,
      log: [
        { status: 500, error: 'responded with 500', response_body: 'no  way' },
        { status: 500 },
        { status: 204, error: '' },
      ],
    })
    expect(new Set(peer.requests.map((request) => request.headers['webhook-id'])).size).toBe(1)
    const times = peer.requests.map(({ headers }) => headers['webhook-timestamp'])
    expect(new Set(times).size).toBe(3)
    for (const request of peer.requests) {
      new Webhook(secret).verify(request.rawBody, request.headers as Record<string, string>)
    }
  })

  test('fails the delivery after the last retry of the schedule', async () => {
    const webhooks = started({ retryScheduleMs: [10] })
    const peer = await receiver()
    peer.answer('close')
    const business = await addBusiness(database)
    const { id } = await addEndpoint(webhooks, business, peer.url)
    await logEvents(database, [paymentEvent(business)])
    webhooks.wake()
    const row = await completed(id)
    expect(row).toMatchObject({ state: 'FAILED', attempts: 2 })
    expect(row.log[1]).toMatchObject({
      status: null,
      error: 'connection closed without a response',
    })
  })

  test('is retried after the time in Retry-After', async () => {
    const webhooks = started({ retryScheduleMs: [10] })
    const peer = await receiver()
    peer.answer({ status: 503, headers: { 'retry-after': '3600' } })
    const business = await addBusiness(database)
    const { id } = await addEndpoint(webhooks, business, peer.url)
    await logEvents(database, [paymentEvent(business)])
    webhooks.wake()
    await peer.next()
    const wait = await until(async () => {
      const result = await database.durablePool.query(
        `select extract(epoch from due_at - now())::int as wait from webhook_delivery
         where endpoint_id = $1 and attempts = 1`,
        [id],
      )
      return result.rows[0]?.wait
    })
    expect(wait).toBeGreaterThan(3_500)
  })
})

describe('an endpoint', () => {
  test('that is deleted receives nothing more', async () => {
    const webhooks = started({ retryScheduleMs: [3_600_000] })
    const [gone, other] = [await receiver(), await receiver()]
    gone.answer({ status: 500 })
    const business = await addBusiness(database)
    const { id } = await addEndpoint(webhooks, business, gone.url)
    await addEndpoint(webhooks, business, other.url)
    await logEvents(database, [paymentEvent(business)])
    webhooks.wake()
    await gone.next()
    await until(async () => (await deliveries(id))[0]?.attempts === 1)
    await webhooks.rpc.deleteEndpoint({ endpointId: id } as never, asOperator)
    await logEvents(database, [paymentEvent(business)])
    webhooks.wake()
    await other.waitFor((requests) => requests.length === 2)
    // Its retry is due now: another endpoint receives a later event, and it receives nothing.
    const { rowCount } = await database.durablePool.query(
      `update webhook_delivery set due_at = now() - interval '1 second' where endpoint_id = $1`,
      [id],
    )
    expect(rowCount).toBe(1)
    await logEvents(database, [paymentEvent(business)])
    webhooks.wake()
    await other.waitFor((requests) => requests.length === 3)
    expect(gone.requests).toHaveLength(1)
  })

  test('that hangs does not delay another, even if a hundred hang', async () => {
    const webhooks = started({ requestTimeoutMs: 60_000 })
    const [hanging, well] = [await receiver(), await receiver()]
    hanging.answer('hang')
    const slowBusinesses = await Promise.all(
      Array.from({ length: 100 }, () => addBusiness(database)),
    )
    for (const business of slowBusinesses) await addEndpoint(webhooks, business, hanging.url)
    const business = await addBusiness(database)
    await addEndpoint(webhooks, business, well.url)
    const backlog = slowBusinesses.flatMap((slow) => [1, 2, 3, 4].map(() => paymentEvent(slow)))
    await logEvents(database, backlog)
    webhooks.wake()
    await hanging.waitFor((requests) => requests.length >= 100)

    await logEvents(
      database,
      Array.from({ length: 50 }, () => paymentEvent(business)),
    )
    webhooks.wake()
    // Their capacity is freed as soon as they count as slow, not after their timeout, which is far
    // longer than this wait.
    await well.waitFor((requests) => requests.length === 50, 20_000)
  })
})

describe('a worker', () => {
  test('that crashed is replaced once its lease has ended', async () => {
    const lost = await openDatabase(db.url, ENTITIES)
    const crashing = openWebhooks(lost, { leaseMs: 700 })
    const peer = await receiver()
    peer.answer('hang')
    const business = await addBusiness(database)
    const { id } = await addEndpoint(crashing, business, peer.url)
    await logEvents(database, [paymentEvent(business)])
    crashing.start()
    await peer.next()
    await lost.close()

    peer.answer({ status: 200 })
    started()
    await peer.next()
    const row = await completed(id)
    expect(row).toMatchObject({ state: 'DELIVERED', attempts: 1 })
    await crashing.stop()
  })

  test('that is stopped releases the attempts it could not finish', async () => {
    const stopping = openWebhooks(database)
    const peer = await receiver()
    peer.answer('hang')
    const business = await addBusiness(database)
    await addEndpoint(stopping, business, peer.url)
    await logEvents(database, [paymentEvent(business)])
    stopping.start()
    await peer.next()
    await stopping.stop()

    // Long before the lease would have ended.
    peer.answer({ status: 200 })
    started()
    await peer.next()
  })

  test('whose lease has ended does not record its attempt', async () => {
    const late = openWebhooks(database, { leaseMs: 300 })
    const peer = await receiver()
    const delivered = Promise.withResolvers<void>()
    peer.answer(() =>
      peer.requests.length === 1 ? { status: 500, after: delivered.promise } : { status: 200 },
    )
    const business = await addBusiness(database)
    const { id } = await addEndpoint(late, business, peer.url)
    await logEvents(database, [paymentEvent(business)])
    late.start()
    await peer.next()
    started()
    await peer.next()
    await until(async () => (await deliveries(id))[0]?.completed_at)
    delivered.resolve()
    await late.stop()
    expect((await deliveries(id))[0]).toMatchObject({ state: 'DELIVERED', attempts: 1 })
  })

  test('continues after the database dropped its connections', async () => {
    const own = await openDatabase(db.url, ENTITIES)
    closing.push(own.close)
    const webhooks = started({}, own)
    const peer = await receiver()
    const business = await addBusiness(database)
    await addEndpoint(webhooks, business, peer.url)
    for (let round = 1; round <= 3; round++) {
      await database.durablePool.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and pid <> pg_backend_pid()`,
      )
      await until(() =>
        logEvents(database, [paymentEvent(business)]).then(
          () => true,
          () => false,
        ),
      )
      webhooks.wake()
      await peer.waitFor((requests) => requests.length >= round)
    }
  })
})
