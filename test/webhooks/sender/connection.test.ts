import { describe, expect, test } from 'vitest'
import { DAY_MS } from '../../../src/core/durations.ts'
import { makeCertificate } from '../../support/certificate.ts'
import { waitUntil } from '../../support/wait-for.ts'
import { closingReceiver, httpClient, LOOPBACK, OK, receiver, responding } from './raw-receiver.ts'

test('a request has the exact expected bytes, in one piece', async () => {
  const peer = await responding()
  const { post } = httpClient()
  const headers = { 'Content-Type': 'application/json', 'x-latin1': 'é\té', 'x-none': '' }
  await post(`http://some.example:${peer.port}/ä?b=c`, headers, Buffer.from('1'))
  expect(peer.all[0]!.text()).toBe(
    [
      'POST /%C3%A4?b=c HTTP/1.1',
      `host: some.example:${peer.port}`,
      'connection: keep-alive',
      'Content-Type: application/json',
      'x-latin1: é\té',
      'x-none: ',
      'content-length: 1',
      '',
      '1',
    ].join('\r\n'),
  )
})

test('a header with a line break is rejected', async () => {
  const peer = await responding()
  const { post } = httpClient()
  await expect(post(peer.url, { a: 'b\r\nc: d' }, '1')).rejects.toThrow('invalid a header')
  expect(peer.all).toHaveLength(0)
})

describe('a connection is not reused', () => {
  test.each([
    ['the receiver closes it', OK.replace('OK', 'OK\r\nconnection: close')],
    ['a second response follows the first', `${OK}HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n`],
  ])('when %s', async (_, response) => {
    const peer = await responding(response)
    const { post } = httpClient()
    expect((await post(peer.url, {}, '1')).error).toBe('')
    await peer.all[0]!.closed
    expect(await post(peer.url, {}, '2')).toMatchObject({ status: 200, responseBody: 'ok' })
    expect(peer.all).toHaveLength(2)
  })

  test('when a response arrived before the request', async () => {
    const peer = await receiver(async (accepted) => {
      accepted.socket.write(OK)
      await accepted.requests(1)
      accepted.socket.write(OK.replace('200', '500'))
    })
    const { post } = httpClient()
    expect((await post(peer.url, {}, '1')).status).toBe(200)
    await peer.all[0]!.closed
    expect((await post(peer.url, {}, '2')).status).toBe(200)
    expect(peer.all).toHaveLength(2)
  })
})

test('the connections of the least recently used endpoint close beyond the maximum', async () => {
  const kept = OK.replace('OK', 'OK\r\nkeep-alive: timeout=600')
  const peer = await responding(...Array<string>(501).fill(kept))
  const { postTo } = httpClient()
  for (let i = 0; i < 501; i++) expect((await postTo(`ep_${i}`, peer.url)).status).toBe(200)
  await peer.all[0]!.closed
  expect((await postTo('ep_1', peer.url)).status).toBe(200)
  expect(peer.all).toHaveLength(501)
})

test('endpoints with the same URL share no connection', async () => {
  const peer = await responding()
  const { postTo } = httpClient()
  for (const endpoint of ['ep_1', 'ep_2']) {
    expect((await postTo(endpoint, peer.url)).status).toBe(200)
  }
  expect(peer.all).toHaveLength(2)
})

test('after a change of URL, old connections close once their requests have finished', async () => {
  const slow = await receiver(() => undefined)
  const peer = await responding()
  const { postTo } = httpClient()
  const before = postTo('ep_1', slow.url)
  await waitUntil(async () => slow.all[0]?.text())
  expect((await postTo('ep_1', peer.url)).status).toBe(200)
  slow.all[0]!.socket.write(OK)
  expect((await before).status).toBe(200)
  await slow.all[0]!.closed
})

test('a request that takes too long to connect times out, and is never sent', async () => {
  const peer = await responding()
  const resolved = Promise.withResolvers<typeof LOOPBACK>()
  const { post } = httpClient({ resolve: () => resolved.promise, timeoutMs: 100 })
  const { error } = await post(`http://late.example:${peer.port}/`, {}, '1')
  expect(error).toBe('timed out after 0.1 s')
  resolved.resolve(LOOPBACK)
  expect((await httpClient().post(peer.url, {}, '1')).status).toBe(200)
  expect(peer.all.filter((accepted) => accepted.text() !== '')).toHaveLength(1)
})

describe('a response', () => {
  test('that is incomplete when the client closes counts as none, and no more are sent', async () => {
    const peer = await receiver(({ socket }) => socket.write('HTTP/1.1 200 OK\r\n'))
    const { post, close } = httpClient()
    const pending = post(peer.url, {}, '1')
    const [accepted] = await waitUntil(async () => (peer.all.length > 0 ? peer.all : undefined))
    await accepted!.requests(1)
    await close()
    expect(await pending).toMatchObject({ status: undefined, error: 'the service stopped' })
    await accepted!.closed
    expect((await post(peer.url, {}, '2')).error).toBe('the service stopped')
    expect(peer.all).toHaveLength(1)
  })
})

const EXPIRED_MS = Date.UTC(2026, 0, 31, 12)
const EARLY_MS = Date.UTC(2126, 0, 31, 12)

test.each([
  ['is self-signed', {}, 'is self-signed'],
  ['has expired', { fromMs: EXPIRED_MS - DAY_MS, toMs: EXPIRED_MS }, 'expired on 2026-01-31'],
  [
    'is not valid yet',
    { fromMs: EARLY_MS, toMs: EARLY_MS + DAY_MS },
    'not valid before 2126-01-31',
  ],
])(
  'a certificate that %s is refused with the reason, and nothing is sent',
  async (_, options, text) => {
    const peer = await closingReceiver(makeCertificate(options))
    const { error } = await httpClient({ allowHttp: false }).post(peer.url, {}, '{}')
    expect([error, peer.requests]).toEqual([`TLS certificate ${text}`, []])
  },
)
