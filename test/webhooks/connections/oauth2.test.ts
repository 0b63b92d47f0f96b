import { describe, expect, test } from 'vitest'
import type { Answer, ReceivedRequest } from '../../support/receiver.ts'
import { openWebhooks, paymentEvent } from '../fixture.ts'
import { clientOf, movableClock, until, useWebhooks } from '../harness.ts'

const harness = useWebhooks()

const SECRET = 'cl:ient s3cret'
const CLIENT = { clientId: 'in flow', clientSecret: SECRET, scope: 'events', audience: 'shop' }

/** An endpoint whose tokens come from a server of its own: t1, t2, … */
async function setUp(more: object = {}, tokenAnswer?: (count: number) => Answer) {
  const clock = movableClock()
  const webhooks = harness.started({ clock })
  const client = clientOf(webhooks)
  const [receiver, server] = [await harness.receiver(), await harness.receiver()]
  let issued = 0
  server.answer(() => {
    issued += 1
    const body = { access_token: `t${issued}`, token_type: 'Bearer', expires_in: 600 }
    return tokenAnswer?.(issued) ?? { status: 200, body: JSON.stringify(body) }
  })
  const businessId = await harness.business()
  const value = { ...CLIENT, tokenUrl: `${server.url}/token`, ...more }
  const options = { authentication: { method: { case: 'oauth2' as const, value } } }
  const { endpoint } = await client.createEndpoint({ businessId, url: receiver.url, options })
  const publish = (count = 1) =>
    harness.publish(...Array.from({ length: count }, () => paymentEvent(businessId)))
  return { clock, client, receiver, server, businessId, endpoint: endpoint!, publish, options }
}

const tokenOf = ({ headers }: ReceivedRequest) => headers.authorization

describe('OAuth 2.0 client credentials', () => {
  test('obtain one token for many requests, and another one before it expires', async () => {
    const { clock, receiver, server, endpoint, publish } = await setUp()
    await publish(20)
    await harness.allCompleted(endpoint.id)
    expect(new Set(receiver.requests.map(tokenOf))).toEqual(new Set(['Bearer t1']))
    const [request, ...others] = server.requests
    expect(others).toEqual([])
    expect(request).toMatchObject({
      path: '/token',
      headers: {
        authorization: `Basic ${Buffer.from('in+flow:cl%3Aient+s3cret').toString('base64')}`,
        'content-type': expect.stringMatching(/^application\/x-www-form-urlencoded(;|$)/),
      },
    })
    expect(Object.fromEntries(new URLSearchParams(request!.rawBody))).toEqual({
      grant_type: 'client_credentials',
      scope: 'events',
      audience: 'shop',
    })
    clock.advance(500_000)
    await publish()
    await receiver.waitFor((all) => all.length === 21)
    expect(server.requests).toHaveLength(1)
    await harness.allCompleted(endpoint.id)
    clock.advance(71_000)
    await publish()
    await receiver.waitFor((all) => all.length === 22)
    expect(tokenOf(receiver.requests.at(-1)!)).toBe('Bearer t2')
  })

  test('are sent in the body if the endpoint says so', async () => {
    const { receiver, server, publish } = await setUp({ credentialsInBody: true, scope: '' })
    await publish()
    await receiver.next()
    const [{ headers, rawBody }] = [await server.next()]
    expect(headers.authorization).toBeUndefined()
    expect(Object.fromEntries(new URLSearchParams(rawBody))).toEqual({
      grant_type: 'client_credentials',
      audience: 'shop',
      client_id: 'in flow',
      client_secret: SECRET,
    })
  })

  test('obtain another token when the receiver responds 401, once in an attempt', async () => {
    const { receiver, server, endpoint, publish } = await setUp()
    receiver.answer((request) => ({ status: tokenOf(request) === 'Bearer t1' ? 401 : 200 }))
    await publish()
    await harness.allCompleted(endpoint.id)
    const [row] = await harness.deliveries(endpoint.id)
    expect(row).toMatchObject({ state: 'DELIVERED', attempts: 1 })
    expect(receiver.requests.map(tokenOf)).toEqual(['Bearer t1', 'Bearer t2'])

    receiver.answer({ status: 401 })
    await publish()
    await harness.allCompleted(endpoint.id)
    const [, refused] = await harness.deliveries(endpoint.id)
    expect(refused).toMatchObject({ state: 'FAILED', attempts: 4 })
    expect(receiver.requests.length - 2).toBe(8)
    expect(server.requests.length - 2).toBe(4)
  })

  test.each([
    [
      { status: 401, body: JSON.stringify({ error: 'invalid_client', hint: SECRET }) },
      'no access token: responded with 401 (invalid_client)',
    ],
    [
      { status: 400, body: JSON.stringify({ error: SECRET }) },
      'no access token: responded with 400',
    ],
    [{ status: 200, body: 'nonsense' }, 'no access token: the response has no bearer token'],
    [
      { status: 200, body: JSON.stringify({ access_token: 'a\r\nb: c', token_type: 'bearer' }) },
      'no access token: the response has no bearer token',
    ],
    [
      { status: 200, body: JSON.stringify({ access_token: 'x', token_type: 'mac' }) },
      'no access token: the response has no bearer token',
    ],
    [
      { status: 302, headers: { location: 'http://127.0.0.1:9/' } },
      'no access token: redirects are not followed (302)',
    ],
    ['close', 'no access token: connection closed without a response'],
  ] as [Answer, string][])('fail an attempt without a token: %j', async (answer, error) => {
    const { receiver, endpoint, publish } = await setUp({}, () => answer)
    await publish()
    await harness.allCompleted(endpoint.id)
    const [row] = await harness.deliveries(endpoint.id)
    expect(row?.log?.map((attempt) => attempt.error)).toEqual(
      Array.from({ length: 4 }, () => error),
    )
    expect(JSON.stringify(row)).not.toContain('s3cret')
    expect(receiver.requests).toEqual([])
  })

  test('are shown without the secret, and replaced by new ones', async () => {
    const { client, receiver, server, businessId, endpoint, publish, options } = await setUp()
    const { clientSecret: _, ...shown } = options.authentication.method.value
    expect(endpoint.options?.authentication).toMatchObject({ case: 'oauth2', value: shown })
    const { endpoints } = await client.listEndpoints({ businessId })
    expect(JSON.stringify(endpoints[0]?.options)).not.toContain('s3cret')
    await publish()
    await receiver.next()
    const value = { ...options.authentication.method.value, clientSecret: 'other' }
    const changed = { authentication: { method: { case: 'oauth2' as const, value } } }
    await client.updateEndpoint({ endpointId: endpoint.id, options: changed })
    await publish()
    await until(async () => server.requests.length === 2)
    expect(tokenOf(await receiver.next())).toBe('Bearer t2')
  })

  test('are not asked for at a name that resolves to a private address', async () => {
    const receiver = await harness.receiver()
    const resolve = async () => [{ address: '10.0.0.1', family: 4 }]
    const webhooks = harness.started({ resolve })
    const businessId = await harness.business()
    const value = { ...CLIENT, tokenUrl: 'http://tokens.example.com/token' }
    const options = { authentication: { method: { case: 'oauth2' as const, value } } }
    const requested = { businessId, url: receiver.url, options }
    const { endpoint } = await clientOf(webhooks).createEndpoint(requested)
    await harness.publish(paymentEvent(businessId))
    await harness.allCompleted(endpoint!.id)
    const [row] = await harness.deliveries(endpoint!.id)
    expect(row?.log?.[0]?.error).toMatch(/^no access token: refused: .*10\.0\.0\.1/)
    expect(receiver.requests).toEqual([])
  })

  test('come only from where webhooks may be sent', async () => {
    const webhooks = openWebhooks(harness.database, { allowHttp: false, allowedCidrs: [] })
    harness.closing(() => webhooks.stop())
    const businessId = await harness.business()
    for (const tokenUrl of [
      'http://example.com/',
      'https://10.0.0.1/',
      'https://user@example.com/',
    ]) {
      const value = { ...CLIENT, tokenUrl }
      const options = { authentication: { method: { case: 'oauth2' as const, value } } }
      const created = clientOf(webhooks).createEndpoint({
        businessId,
        url: 'https://example.com/',
        options,
      })
      await expect(created).rejects.toThrow('options.authentication.oauth2.tokenUrl')
    }
  })
})
