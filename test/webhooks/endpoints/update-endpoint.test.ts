import { durationFromMs } from '@bufbuild/protobuf/wkt'
import { Code, ConnectError } from '@connectrpc/connect'
import { Webhook } from 'standardwebhooks'
import { describe, expect, test } from 'vitest'
import { verifyWebhook } from '../../../src/client/verify-webhook.ts'
import { accountEvent, paymentEvent } from '../fixture.ts'
import { addEndpoint, clientOf, movableClock, until, useWebhooks } from '../harness.ts'

const HOUR_MS = 3_600_000

const harness = useWebhooks()

describe('updating an endpoint', () => {
  test('changes the given fields and keeps the others', async () => {
    const client = clientOf(harness.started())
    const businessId = await harness.business()
    const first = { url: 'https://a.example/', kinds: ['ACCOUNT_CLOSED'], description: 'first' }
    const { endpoint: made } = await client.createEndpoint({ businessId, ...first })
    expect(made).toMatchObject({ ...first, concurrency: 10, status: 1 })
    const endpointId = made!.id
    const steps = [
      [{ url: 'https://b.example/' }, { url: 'https://b.example/' }],
      [
        { kinds: ['PAYMENT_REVERSED', 'ENDPOINT_TEST'] },
        { kinds: ['PAYMENT_REVERSED', 'ENDPOINT_TEST'] },
      ],
      [{ allKinds: true }, { kinds: [] }],
      [{ description: '' }, { description: '' }],
      [{ concurrency: 3 }, { concurrency: 3 }],
      [{ enabled: false }, { status: 2, disabledReason: 1 }],
      [{ enabled: true }, { status: 1, disabledReason: 0 }],
      [{}, {}],
    ]
    let expected: object = { ...first, businessId }
    for (const [change, effect] of steps) {
      expected = { ...expected, ...effect }
      const { endpoint } = await client.updateEndpoint({ endpointId, ...change })
      expect(endpoint).toMatchObject(expected)
      expect((await client.listEndpoints({ businessId })).endpoints).toEqual([endpoint])
    }
  })

  test('rejects a URL that must not be called', async () => {
    const client = clientOf(harness.started({ allowHttp: false, allowedCidrs: [] }))
    const businessId = await harness.business()
    const { endpoint } = await client.createEndpoint({ businessId, url: 'https://a.example/' })
    for (const url of ['http://a.example/', 'https://10.0.0.1/', 'file:///etc/passwd']) {
      const fault = await client.updateEndpoint({ endpointId: endpoint!.id, url }).catch((e) => e)
      expect(fault).toBeInstanceOf(ConnectError)
      expect((fault as ConnectError).code).toBe(Code.InvalidArgument)
    }
    const { endpoints } = await client.listEndpoints({ businessId })
    expect(endpoints[0]?.url).toBe('https://a.example/')
  })

  test('takes effect for pending and for new deliveries', async () => {
    const webhooks = harness.started({ retryScheduleMs: Array(100).fill(50) })
    const client = clientOf(webhooks)
    const [old, fresh] = [await harness.receiver(), await harness.receiver()]
    old.answer({ status: 500 })
    const business = await harness.business()
    const { id } = await addEndpoint(webhooks, business, old.url, { kinds: ['ACCOUNT_CREATED'] })
    await harness.publish(accountEvent(business))
    await old.next()
    await client.updateEndpoint({
      endpointId: id,
      url: fresh.url,
      kinds: ['PAYMENT_NOTIFICATION'],
    })
    expect(JSON.parse((await fresh.next()).rawBody).event).toBe('ACCOUNT_CREATED')
    await harness.publish(accountEvent(business), paymentEvent(business))
    expect(JSON.parse((await fresh.next()).rawBody).event).toBe('PAYMENT_NOTIFICATION')
    expect(fresh.requests).toHaveLength(2)
  })

  test('pauses deliveries while it is disabled, and sends them once it is enabled', async () => {
    // Deliveries are paused for as long as retries would have lasted.
    const webhooks = harness.started({ retryScheduleMs: [60_000] })
    const client = clientOf(webhooks)
    const [peer, other] = [await harness.receiver(), await harness.receiver()]
    const business = await harness.business()
    const { id } = await addEndpoint(webhooks, business, peer.url)
    await addEndpoint(webhooks, business, other.url)
    await client.updateEndpoint({ endpointId: id, enabled: false })
    const events = [paymentEvent(business), paymentEvent(business)]
    await harness.publish(...events)
    await other.waitFor((requests) => requests.length === 2)
    expect((await harness.deliveries(id)).map((row) => row.attempts)).toEqual([0, 0])
    expect(peer.requests).toHaveLength(0)
    await client.updateEndpoint({ endpointId: id, enabled: true })
    const requests = await peer.waitFor((all) => all.length === 2)
    expect(requests.map((request) => request.headers['webhook-id']).sort()).toEqual(
      events.map((event) => event.id).sort(),
    )
  })

  test('limits concurrent requests', async () => {
    const webhooks = harness.started()
    const peer = await harness.receiver()
    let open = 0
    let most = 0
    peer.answer(() => {
      open += 1
      most = Math.max(most, open)
      setTimeout(() => {
        open -= 1
      }, 30)
      return { status: 200, delayMs: 30 }
    })
    const business = await harness.business()
    const { id } = await addEndpoint(webhooks, business, peer.url, { concurrency: 3 })
    await harness.publish(...Array.from({ length: 30 }, () => paymentEvent(business)))
    await until(
      async () => (await harness.deliveries(id)).filter((row) => row.completed_at).length === 30,
    )
    expect(peer.requests).toHaveLength(30)
    expect(most).toBe(3)
  })
})

describe('rotating a secret', () => {
  test('lets both secrets sign during the overlap, and then only the newest', async () => {
    const clock = movableClock()
    const webhooks = harness.started({ clock })
    const client = clientOf(webhooks)
    const peer = await harness.receiver()
    const business = await harness.business()
    const { id, secret: first } = await addEndpoint(webhooks, business, peer.url)
    const { secret: second, endpoint } = await client.rotateSecret({ endpointId: id })
    expect(second).not.toBe(first)
    expect(endpoint?.secrets).toHaveLength(2)
    expect(endpoint?.secrets[0]?.expiresAt).toBeUndefined()
    const { createdAt, expiresAt } = endpoint!.secrets[1]!
    expect(Number(expiresAt!.seconds - createdAt!.seconds)).toBeCloseTo(24 * 3_600, -2)

    const received = async () => {
      await harness.publish(paymentEvent(business))
      const { rawBody, headers } = await peer.next()
      await harness.allCompleted(id)
      const now = () => clock.now()
      const verified = (secret: string) => verifyWebhook(rawBody, headers, secret, { now }).ok
      return { rawBody, headers, verified }
    }
    const during = await received()
    expect(during.headers['webhook-signature']).toMatch(/^v1,\S+ v1,\S+$/)
    for (const secret of [first, second]) {
      new Webhook(secret).verify(during.rawBody, during.headers as Record<string, string>)
    }
    // The first signature is made with the newest secret.
    const [newest] = `${during.headers['webhook-signature']}`.split(' ')
    const alone = { ...during.headers, 'webhook-signature': newest }
    expect(verifyWebhook(during.rawBody, alone, second).ok).toBe(true)

    clock.advance(23 * HOUR_MS)
    expect((await received()).verified(first)).toBe(true)
    clock.advance(2 * HOUR_MS)
    const after = await received()
    expect([after.verified(first), after.verified(second)]).toEqual([false, true])
    expect(
      (await client.listEndpoints({ businessId: business })).endpoints[0]?.secrets,
    ).toHaveLength(1)
  })

  test('binds a secret to its number: swapped in the database, neither signs', async () => {
    const webhooks = harness.started({ retryScheduleMs: [60_000] })
    const peer = await harness.receiver()
    const business = await harness.business()
    const { id } = await addEndpoint(webhooks, business, peer.url)
    await clientOf(webhooks).rotateSecret({ endpointId: id })
    const { rowCount } = await harness.database.durablePool.query(
      `update webhook_secret s set secret_encrypted = o.secret_encrypted from webhook_secret o
        where s.endpoint_id = $1 and o.endpoint_id = $1 and o.number = 3 - s.number`,
      [id],
    )
    expect(rowCount).toBe(2)
    await harness.publish(paymentEvent(business))
    const attempts = await until(async () => (await harness.deliveries(id))[0]?.log)
    expect(attempts[0]?.error).toBe('internal error: the request could not be built')
    expect(peer.requests).toHaveLength(0)
  })

  test('without an overlap ends the earlier secrets at once', async () => {
    const webhooks = harness.started()
    const client = clientOf(webhooks)
    const peer = await harness.receiver()
    const business = await harness.business()
    const { id, secret: first } = await addEndpoint(webhooks, business, peer.url)
    await client.rotateSecret({ endpointId: id })
    const overlap = durationFromMs(0)
    const { secret: last, endpoint } = await client.rotateSecret({ endpointId: id, overlap })
    expect(endpoint?.secrets).toHaveLength(1)
    await harness.publish(paymentEvent(business))
    const { rawBody, headers } = await peer.next()
    expect(verifyWebhook(rawBody, headers, first).ok).toBe(false)
    expect(verifyWebhook(rawBody, headers, last).ok).toBe(true)
    const { rows } = await harness.database.durablePool.query(
      'select number from webhook_secret where endpoint_id = $1',
      [id],
    )
    expect(rows).toEqual([{ number: 3 }])
  })

  test('is limited to five active secrets, and always possible without an overlap', async () => {
    const webhooks = harness.started()
    const client = clientOf(webhooks)
    const { id } = await addEndpoint(webhooks, await harness.business(), 'https://a.example/')
    for (let i = 0; i < 4; i++) await client.rotateSecret({ endpointId: id })
    const fault = await client.rotateSecret({ endpointId: id }).catch((error) => error)
    expect((fault as ConnectError).code).toBe(Code.ResourceExhausted)
    const { endpoint } = await client.rotateSecret({ endpointId: id, overlap: durationFromMs(0) })
    expect(endpoint?.secrets).toHaveLength(1)
  })

  test('concurrently gives each secret its own number, and one never expires', async () => {
    const webhooks = harness.started()
    const client = clientOf(webhooks)
    const { id } = await addEndpoint(webhooks, await harness.business(), 'https://a.example/')
    await Promise.all([1, 2, 3, 4].map(() => client.rotateSecret({ endpointId: id })))
    const { rows } = await harness.database.durablePool.query(
      'select number, expires_at from webhook_secret where endpoint_id = $1 order by number',
      [id],
    )
    expect(rows.map((row) => [row.number, row.expires_at === null])).toEqual([
      [1, false],
      [2, false],
      [3, false],
      [4, false],
      [5, true],
    ])
  })
})
