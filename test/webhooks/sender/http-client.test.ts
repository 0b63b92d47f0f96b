import type { Socket } from 'node:net'
import { describe, expect, test } from 'vitest'
import type { Resolve } from '../../../src/core/addresses.ts'
import { closingReceiver, httpClient, LOOPBACK, receiver } from './raw-receiver.ts'

/** A peer that does not speak proper HTTP. @returns its URL */
const rawServer = async (onConnection: (socket: Socket) => void): Promise<string> =>
  (await receiver(({ socket }) => onConnection(socket))).url

describe('a request', () => {
  test('is not sent to a refused literal address, in any spelling', async () => {
    const peer = await closingReceiver()
    const port = new URL(peer.url).port
    const strict = httpClient({ cidrs: [] })
    for (const host of ['127.0.0.1', '127.1', '2130706433', '0x7f000001', '[::ffff:127.0.0.1]']) {
      const outcome = await strict.post(`http://${host}:${port}/`, {}, '')
      expect(outcome.error).toContain('a loopback address (127.0.0.1)')
    }
    expect(peer.requests).toHaveLength(0)
  })

  test('is not sent when any of the name’s addresses is private', async () => {
    const peer = await closingReceiver()
    const resolve: Resolve = async () => [
      { address: '127.0.0.1', family: 4 },
      { address: '10.0.0.1', family: 4 },
    ]
    const outcome = await httpClient({ resolve }).post(
      `http://rebind.example:${new URL(peer.url).port}/`,
      {},
      '',
    )
    expect(outcome.error).toBe('refused: resolves to a private address (10.0.0.1)')
    expect(peer.requests).toHaveLength(0)
  })

  test('goes to the address that was checked, and the name is resolved once', async () => {
    const peer = await closingReceiver()
    const addresses = ['127.0.0.1', '10.0.0.1']
    const asked: string[] = []
    const resolve: Resolve = async (hostname) => {
      asked.push(hostname)
      return [{ address: addresses.shift() ?? '10.0.0.1', family: 4 }]
    }
    const url = `http://rebind.example:${new URL(peer.url).port}/`
    const outcome = await httpClient({ resolve }).post(url, {}, '')
    expect(outcome.status).toBe(200)
    expect(asked).toEqual(['rebind.example'])
    expect((await peer.next()).headers.host).toBe(new URL(url).host)
  })

  test.each([
    ['::ffff:169.254.169.254', 6, 'a link-local address (169.254.169.254)'],
    ['64:ff9b::a00:1', 6, 'a private address (10.0.0.1)'],
    ['0.0.0.0', 4, 'an unspecified address (0.0.0.0)'],
  ])('is not sent to a name that resolves to %s', async (address, family, kind) => {
    const strict = httpClient({ cidrs: [], resolve: async () => [{ address, family }] })
    const { error } = await strict.post('http://inside.example/', {}, '')
    expect(error).toBe(`refused: resolves to ${kind}`)
  })

  test('is checked at every connection', async () => {
    const peer = await closingReceiver()
    peer.answer({ status: 200, headers: { connection: 'close' } })
    const addresses = ['127.0.0.1', '10.0.0.1']
    const resolve: Resolve = async () => [{ address: addresses.shift() ?? '', family: 4 }]
    const made = httpClient({ resolve })
    const url = `http://rebind.example:${new URL(peer.url).port}/`
    expect((await made.post(url, {}, '')).status).toBe(200)
    const { error } = await made.post(url, {}, '')
    expect(error).toBe('refused: resolves to a private address (10.0.0.1)')
    expect(peer.requests).toHaveLength(1)
  })

  test('is not sent to a name without an address', async () => {
    const { error } = await httpClient({ resolve: async () => [] }).post(
      'http://empty.example/',
      {},
      '',
    )
    expect(error).toBe('refused: resolves to no address')
  })

  test('is not sent over http if only https is allowed', async () => {
    const made = httpClient({ allowHttp: false })
    const { error } = await made.post('http://example.com/', {}, '')
    expect(error).toBe('refused: the URL must be an https URL')
  })
})

describe('a connection', () => {
  const NO_CONTENT = 'HTTP/1.1 204 No Content\r\n\r\n'

  test('is reused, and there are at most as many as concurrent requests', async () => {
    const sockets: Socket[] = []
    const url = await rawServer((socket) => {
      sockets.push(socket)
      socket.on('data', () => socket.write(NO_CONTENT))
    })
    const { post } = httpClient({ concurrency: 4 })
    for (let i = 0; i < 5; i++) expect((await post(url, {}, 'a')).status).toBe(204)
    // A request may start while the connection of the previous one is being returned to the pool.
    expect(sockets.length).toBeLessThanOrEqual(2)
    const outcomes = await Promise.all(Array.from({ length: 8 }, () => post(url, {}, 'b')))
    expect(outcomes.map(({ status }) => status)).toEqual(Array(8).fill(204))
    expect(sockets).toHaveLength(4)
  })

  test('that timed out does not get the next request', async () => {
    const sockets: Socket[] = []
    const url = await rawServer((socket) => {
      sockets.push(socket)
      if (sockets.length > 1) socket.on('data', () => socket.write(NO_CONTENT))
    })
    const { post } = httpClient({ timeoutMs: 10_000 })
    expect((await post(url, {}, 'a')).error).toBe('timed out after 10 s')
    expect((await post(url, {}, 'b')).status).toBe(204)
    expect(sockets).toHaveLength(2)
  })
})

describe('a response', () => {
  test.each([301, 307])('with %d is not followed', async (status) => {
    const [peer, target] = [await closingReceiver(), await closingReceiver()]
    peer.answer({ status, headers: { location: target.url } })
    const outcome = await httpClient().post(peer.url, {}, '')
    expect(outcome).toMatchObject({ status, error: `redirects are not followed (${status})` })
    expect(target.requests).toHaveLength(0)
  })

  test('with another status than 2xx is a failure', async () => {
    const status = 503
    const peer = await closingReceiver()
    peer.answer({ status, headers: { 'retry-after': '7' }, body: 'no' })
    const outcome = await httpClient().post(peer.url, {}, '')
    expect(outcome).toEqual({
      status,
      responseBody: 'no',
      error: `responded with ${status}`,
      retryAfter: '7',
    })
  })

  test('is stored up to 4 KiB, and not read to the end if it is endless', async () => {
    let sentBytes = 0
    const url = await rawServer((socket) => {
      socket.once('data', () => {
        socket.write('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n')
        const more = () => {
          while (!socket.destroyed && sentBytes < 50_000_000) {
            sentBytes += 16_384
            if (!socket.write(`4000\r\n${'x'.repeat(16_384)}\r\n`)) return
          }
        }
        socket.on('drain', more)
        more()
      })
    })
    const outcome = await httpClient().post(url, {}, '')
    expect(outcome).toMatchObject({ status: 200, error: '', responseBody: 'x'.repeat(4_096) })
    expect(sentBytes).toBeLessThan(20_000_000)
  })

  test('whose headers never end is cut off', async () => {
    const url = await rawServer((socket) => {
      socket.once('data', () => {
        socket.write('HTTP/1.1 200 OK\r\n')
        const more = () => {
          while (!socket.destroyed && socket.write(`x-a: ${'x'.repeat(1_000)}\r\n`)) {}
        }
        socket.on('drain', more)
        more()
      })
    })
    const { error } = await httpClient().post(url, {}, '')
    expect(error).toBe('the response headers are too large')
  })

  test('whose headers trickle is a timeout', async () => {
    const url = await rawServer((socket) => {
      socket.write('HTTP/1.1 200 OK\r\n')
      const timer = setInterval(() => socket.write('x-a: 1\r\n'), 50)
      socket.on('close', () => clearInterval(timer))
    })
    const { error } = await httpClient({ timeoutMs: 300 }).post(url, {}, '')
    expect(error).toBe('timed out after 0.3 s')
  })

  test('that acknowledges counts even if its body trickles or breaks off', async () => {
    const trickling = await rawServer((socket) => {
      socket.once('data', () => {
        socket.write('HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nok')
        const timer = setInterval(() => socket.write('.'), 50)
        socket.on('close', () => clearInterval(timer))
      })
    })
    const broken = await rawServer((socket) => {
      socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nok'))
    })
    const one = await httpClient({ timeoutMs: 10_000 }).post(trickling, {}, '')
    expect(one).toMatchObject({ status: 200, error: '' })
    const other = await httpClient().post(broken, {}, '')
    expect(other).toMatchObject({ status: 200, error: '', responseBody: 'ok' })
  })
})

test('why there was no response is reported', async () => {
  const [closed, cut, plain] = [
    await closingReceiver(),
    await closingReceiver(),
    await closingReceiver(),
  ]
  await closed.close()
  cut.answer('close')
  const resolve: Resolve = async (name) => {
    if (name === '127.0.0.1') return LOOPBACK
    throw Object.assign(new Error('getaddrinfo ENOTFOUND'), { code: 'ENOTFOUND' })
  }
  const { post } = httpClient({ resolve })
  for (const [url, error] of [
    [closed.url, 'connection refused'],
    [cut.url, 'connection closed without a response'],
    [plain.url.replace('http', 'https'), 'TLS handshake failed'],
    ['http://nowhere.example/', 'host name not found'],
  ] as const)
    expect(await post(url, {}, '')).toMatchObject({ status: undefined, error })
})
