import { describe, expect, test } from 'vitest'
import type { OAuth2Client } from '../../../src/webhooks/connections/connection.ts'
import { createConnectedSender } from '../../../src/webhooks/connections/send-connected.ts'
import { createAddressGuard } from '../../../src/webhooks/sender/address-guard.ts'
import { createHttpClient } from '../../../src/webhooks/sender/http-client.ts'
import type { Answer, ReceivedRequest } from '../../support/receiver.ts'
import { paymentEvent } from '../fixture.ts'
import { clientOf, movableClock, useWebhooks } from '../harness.ts'
import { closing, closingReceiver, LOOPBACK } from '../sender/raw-receiver.ts'

const SECRET = 'cl:ient s3cret'
const CLIENT = {
  clientId: 'in flow',
  clientSecret: SECRET,
  scope: 'events',
  audience: 'shop',
  credentialsInBody: false,
}

/** Sends to a receiver, with tokens of a server: t1, t2, … */
async function setUp(more: Partial<OAuth2Client> = {}, tokenAnswer?: Answer) {
  const clock = movableClock()
  const [peer, server] = [await closingReceiver(), await closingReceiver()]
  let issued = 0
  server.answer(() => {
    issued += 1
    const body = { access_token: `t${issued}`, token_type: 'Bearer', expires_in: 600 }
    return tokenAnswer ?? { status: 200, body: JSON.stringify(body) }
  })
  const httpClient = createHttpClient({
    rules: { allowHttp: true, guard: createAddressGuard(['127.0.0.0/8']) },
    timeoutMs: 15_000,
    resolve: async (name) =>
      name === 'private.example' ? [{ address: '10.0.0.1', family: 4 }] : LOOPBACK,
  })
  closing.push(httpClient.close)
  const sendConnected = createConnectedSender(httpClient, clock)
  const client: OAuth2Client = {
    method: 'oauth2',
    ...CLIENT,
    tokenUrl: `${server.url}/token`,
    ...more,
  }
  const send = (authentication = client) =>
    sendConnected(
      { origin: peer.url, headers: [], certificate: undefined, authentication },
      { endpointId: 'ep_1', url: peer.url, concurrency: 10 },
      {},
      Buffer.from('{}'),
    )
  return { clock, peer, server, client, send }
}

const tokenOf = ({ headers }: ReceivedRequest) => headers.authorization
const formOf = ({ rawBody }: ReceivedRequest) => Object.fromEntries(new URLSearchParams(rawBody))

describe('OAuth 2.0 client credentials', () => {
  test('obtain one token for many requests, and another one before it expires', async () => {
    const { clock, peer, server, send } = await setUp()
    await Promise.all(Array.from({ length: 20 }, () => send()))
    expect(new Set(peer.requests.map(tokenOf))).toEqual(new Set(['Bearer t1']))
    const [request, ...others] = server.requests
    expect(others).toEqual([])
    expect(request).toMatchObject({
      path: '/token',
      headers: {
        authorization: `Basic ${Buffer.from('in+flow:cl%3Aient+s3cret').toString('base64')}`,
        'content-type': expect.stringMatching(/^application\/x-www-form-urlencoded(;|$)/),
      },
    })
    expect(formOf(request!)).toEqual({
      grant_type: 'client_credentials',
      scope: 'events',
      audience: 'shop',
    })
    clock.advance(500_000)
    await send()
    expect(server.requests).toHaveLength(1)
    clock.advance(71_000)
    await send()
    expect(tokenOf(peer.requests.at(-1)!)).toBe('Bearer t2')
  })

  test('are sent in the body if the endpoint says so', async () => {
    const { server, send } = await setUp({ credentialsInBody: true, scope: '' })
    await send()
    const request = await server.next()
    expect(tokenOf(request)).toBeUndefined()
    expect(formOf(request)).toEqual({
      grant_type: 'client_credentials',
      audience: 'shop',
      client_id: 'in flow',
      client_secret: SECRET,
    })
  })

  test('obtain another token when the receiver responds 401, once in an attempt', async () => {
    const { peer, server, send } = await setUp()
    peer.answer((request) => ({ status: tokenOf(request) === 'Bearer t1' ? 401 : 200 }))
    expect(await send()).toMatchObject({ status: 200, error: '' })
    expect(peer.requests.map(tokenOf)).toEqual(['Bearer t1', 'Bearer t2'])
    peer.answer({ status: 401 })
    expect(await send()).toMatchObject({ error: 'responded with 401' })
    expect([peer.requests.length, server.requests.length]).toEqual([4, 3])
  })

  test('obtain no other token in an attempt that has taken long, as its lease could end', async () => {
    const { clock, peer, send } = await setUp()
    peer.answer(() => {
      clock.advance(8_000)
      return { status: 401 }
    })
    expect(await send()).toMatchObject({ error: 'responded with 401' })
    expect(peer.requests.map(tokenOf)).toEqual(['Bearer t1'])
    peer.answer({ status: 200 })
    expect(await send()).toMatchObject({ status: 200 })
    expect(tokenOf(peer.requests.at(-1)!)).toBe('Bearer t2')
  })

  test('that were changed obtain another token', async () => {
    const { peer, client, send } = await setUp()
    await send()
    await send({ ...client, clientSecret: 'other' })
    expect(peer.requests.map(tokenOf)).toEqual(['Bearer t1', 'Bearer t2'])
  })

  test.each([
    [
      { status: 401, body: JSON.stringify({ error: 'invalid_client', hint: SECRET }) },
      'responded with 401 (invalid_client)',
    ],
    [{ status: 400, body: JSON.stringify({ error: SECRET }) }, 'responded with 400'],
    [{ status: 200, body: 'nonsense' }, 'the response has no bearer token'],
    [
      { status: 200, body: JSON.stringify({ access_token: 'a\r\nb: c', token_type: 'bearer' }) },
      'the response has no bearer token',
    ],
    [
      { status: 200, body: JSON.stringify({ access_token: 'x', token_type: 'mac' }) },
      'the response has no bearer token',
    ],
    [
      { status: 302, headers: { location: 'http://127.0.0.1:9/' } },
      'redirects are not followed (302)',
    ],
    ['close', 'connection closed without a response'],
  ] as [Answer, string][])('fail an attempt without a token: %j', async (answer, error) => {
    const { peer, send } = await setUp({}, answer)
    expect(await send()).toMatchObject({ status: undefined, error: `no access token: ${error}` })
    expect(peer.requests).toEqual([])
  })

  test('are not sent to a name that resolves to a private address', async () => {
    const { peer, send } = await setUp({ tokenUrl: 'http://private.example/token' })
    expect((await send()).error).toMatch(/^no access token: refused: .*10\.0\.0\.1/)
    expect(peer.requests).toEqual([])
  })
})

const harness = useWebhooks()

test('an endpoint with client credentials sends its tokens, and shows no secret', async () => {
  const client = clientOf(harness.started())
  const [peer, server] = [await harness.receiver(), await harness.receiver()]
  const token = { access_token: 't1', token_type: 'Bearer' }
  server.answer({ status: 200, body: JSON.stringify(token) })
  const businessId = await harness.business()
  const value = { ...CLIENT, tokenUrl: `${server.url}/token` }
  const options = { authentication: { method: { case: 'oauth2' as const, value } } }
  const { endpoint } = await client.createEndpoint({ businessId, url: peer.url, options })
  const { clientSecret: _, ...shown } = value
  expect(endpoint?.options?.authentication).toMatchObject({ case: 'oauth2', value: shown })
  const { endpoints } = await client.listEndpoints({ businessId })
  expect(JSON.stringify(endpoints[0]?.options)).not.toContain('s3cret')
  await harness.publish(paymentEvent(businessId))
  expect(tokenOf(await peer.next())).toBe('Bearer t1')
})

test('tokens come only from where webhooks may be sent', async () => {
  const webhooks = harness.idle({ allowHttp: false, allowedCidrs: [] })
  const businessId = await harness.business()
  for (const tokenUrl of ['http://example.com/', 'https://10.0.0.1/']) {
    const value = { ...CLIENT, tokenUrl }
    const options = { authentication: { method: { case: 'oauth2' as const, value } } }
    const request = { businessId, url: 'https://example.com/', options }
    await expect(clientOf(webhooks).createEndpoint(request)).rejects.toThrow(
      'options.authentication.oauth2.tokenUrl',
    )
  }
})
