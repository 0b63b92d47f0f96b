import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createRawServer, type Server as RawServer, type Socket } from 'node:net'
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { type BankRequest, BankUnreachableError } from '../../src/banks/http/bank-http.ts'
import {
  BANK_HTTP_LIMITS,
  type BankHttpLimits,
  createBankHttp,
  type PooledBankHttp,
  type RequestResult,
} from '../../src/banks/http/create-bank-http.ts'
import { systemClock } from '../../src/core/clock.ts'
import { until } from '../protocols/rest/rest.ts'
import { listen } from '../support/listen.ts'
import { waitUntil } from '../support/wait-for.ts'

type Handler = (request: IncomingMessage, response: ServerResponse, body: string) => void

const opened: (() => Promise<unknown>)[] = []

afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close()
})

async function serve(server: Server | RawServer): Promise<number> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => sockets.add(socket))
  opened.push(() => {
    for (const socket of sockets) socket.destroy()
    return new Promise((resolve) => server.close(resolve))
  })
  return listen(server)
}

/** Starts a bank server with this handler that records its requests. */
async function bank(handler: Handler, path = '') {
  const requests: { method: string; url: string; body: string }[] = []
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk) => {
      body += chunk
    })
    request.on('end', () => {
      requests.push({ method: request.method!, url: request.url!, body })
      handler(request, response, body)
    })
  })
  const port = await serve(server)
  return { requests, baseUrl: `http://127.0.0.1:${port}${path}` }
}

function httpTo(baseUrl: string, limits: Partial<BankHttpLimits> = {}) {
  const results: RequestResult[] = []
  const http = createBankHttp({
    baseUrl,
    limits: { ...BANK_HTTP_LIMITS, ...limits },
    clock: systemClock,
    observe: (result) => void results.push(result),
  })
  opened.push(() => http.close())
  return { http, results }
}

const get = (path = 'x', signal: AbortSignal = new AbortController().signal): BankRequest => ({
  method: 'GET',
  path,
  headers: {},
  signal,
})

const post = (body: string): BankRequest => ({ ...get(), method: 'POST', body })

const unreachable = async (sending: Promise<unknown>): Promise<BankUnreachableError> => {
  const error = await sending.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(BankUnreachableError)
  return error as BankUnreachableError
}

describe('a response of any status', () => {
  test('is returned for a path below the base URL, with headers and body unchanged', async () => {
    const { baseUrl, requests } = await bank((request, response, body) => {
      response.end(`${request.headers['x-own']} ${body}`)
    }, '/api/v1/')
    const { http, results } = httpTo(baseUrl)
    const response = await http.send({
      ...post('{"a":1}'),
      path: 'create?x=1',
      headers: { 'X-Own': 'é' },
    })
    expect(response).toEqual({ status: 200, text: 'é {"a":1}' })
    expect(requests).toEqual([{ method: 'POST', url: '/api/v1/create?x=1', body: '{"a":1}' }])
    expect(results).toEqual(['2xx'])
  })

  test('is returned for a redirect, which is not followed', async () => {
    const { baseUrl, requests } = await bank((_request, response) => {
      response.writeHead(302, { location: '/elsewhere' }).end('moved')
    })
    expect(await httpTo(baseUrl).http.send(get())).toEqual({ status: 302, text: 'moved' })
    expect(requests).toHaveLength(1)
  })
})

describe('the error without a response says whether the request was sent', () => {
  test('connection refused: not sent', async () => {
    const server = createServer()
    const port = await serve(server)
    await opened.pop()?.()
    const { http, results } = httpTo(`http://127.0.0.1:${port}`)
    expect((await unreachable(http.send(get()))).sent).toBe(false)
    expect(results).toEqual(['unreachable'])
  })

  test('unresolvable name: not sent', async () => {
    expect((await unreachable(httpTo('http://unknown.invalid').http.send(get()))).sent).toBe(false)
  })

  test('failed TLS handshake: not sent', async () => {
    const port = await serve(createRawServer((socket) => socket.end('no TLS here')))
    expect((await unreachable(httpTo(`https://127.0.0.1:${port}`).http.send(get()))).sent).toBe(
      false,
    )
  })

  test('no response: sent', async () => {
    const arrived = Promise.withResolvers<void>()
    const { baseUrl, requests } = await bank(() => arrived.resolve())
    const { http, results } = httpTo(baseUrl, { timeoutMs: 800 })
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const sent = unreachable(http.send(post('x')))
    await arrived.promise
    vi.advanceTimersByTime(800)
    expect((await sent).sent).toBe(true)
    expect([requests.length, results]).toEqual([1, ['timeout']])
  })

  test('broken connection: sent', async () => {
    const { baseUrl } = await bank((request) => request.socket.destroy())
    expect((await unreachable(httpTo(baseUrl).http.send(post('x')))).sent).toBe(true)
  })

  test('response larger than 1 MiB: sent', async () => {
    const { baseUrl } = await bank((_request, response) => response.end('x'.repeat(1_048_577)))
    expect((await unreachable(httpTo(baseUrl).http.send(get()))).sent).toBe(true)
  })

  test('aborted after the bank received the request: sent', async () => {
    const { baseUrl, requests } = await bank(() => undefined)
    const end = new AbortController()
    const sending = unreachable(httpTo(baseUrl).http.send(get('x', end.signal)))
    await waitUntil(() => requests.length === 1)
    end.abort()
    expect((await sending).sent).toBe(true)
  })

  test('connection timeout: not sent, and not sent later either', async () => {
    // A server that accepts connections but never starts TLS.
    const port = await serve(createRawServer(() => undefined))
    const { http } = httpTo(`https://127.0.0.1:${port}`, { timeoutMs: 100 })
    expect((await unreachable(http.send(get()))).sent).toBe(false)
  })
})

test('limits concurrent and queued requests, and rejects others at once', async () => {
  const pending: ServerResponse[] = []
  const { baseUrl } = await bank((_request, response) => void pending.push(response))
  const { http, results } = httpTo(baseUrl, { concurrency: 2, queueMax: 3 })
  const first = [1, 2, 3, 4, 5].map(() => http.send(get()))
  await waitUntil(() => pending.length === 2)
  expect((await unreachable(http.send(get()))).sent).toBe(false)
  expect(results).toEqual(['rejected'])
  for (let i = 0; i < 5; i++) {
    const response = await waitUntil(() => pending.shift())
    response!.end('ok')
  }
  expect(await Promise.all(first)).toHaveLength(5)
  expect(http.breakerState()).toBe('closed')
})

test('a request that times out in the queue is not sent', async () => {
  const arrived = Promise.withResolvers<void>()
  const { baseUrl, requests } = await bank(() => arrived.resolve())
  const { http } = httpTo(baseUrl, { concurrency: 1, timeoutMs: 150 })
  // Both time out at once: the second one gets the place of the first, but no time.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
  const sent = Promise.all([unreachable(http.send(get('a'))), unreachable(http.send(get('b')))])
  await arrived.promise
  vi.advanceTimersByTime(150)
  expect((await sent).map((each) => each.sent)).toEqual([true, false])
  expect(requests.map((each) => each.url)).toEqual(['/a'])
})

test('a request that is aborted in the queue fails at once', async () => {
  const { baseUrl, requests } = await bank(() => undefined)
  const { http, results } = httpTo(baseUrl, { concurrency: 1 })
  const first = unreachable(http.send(get('a')))
  await waitUntil(() => requests.length === 1)
  const error = await unreachable(http.send(get('b', AbortSignal.timeout(20))))
  expect([error.sent, results]).toEqual([false, ['rejected']])
  await opened.pop()?.()
  expect((await first).sent).toBe(true)
})

describe('the circuit breaker', () => {
  // Cockatiel reads the time from Date.
  beforeEach(() => void vi.useFakeTimers({ toFake: ['Date'] }))
  afterEach(() => void vi.useRealTimers())
  const advance = (ms: number) => void vi.setSystemTime(Date.now() + ms)

  const breaker = { failureThreshold: 3, windowMs: 1_000, openMs: 500 }
  const send = (http: PooledBankHttp) => http.send(get()).catch((error: unknown) => error)

  async function openBreaker() {
    let status = 500
    const { baseUrl, requests } = await bank((_request, response) =>
      response.writeHead(status).end(),
    )
    const { http, results } = httpTo(baseUrl, { breaker })
    for (let i = 0; i < 3; i++) await send(http)
    const recover = () => {
      status = 200
    }
    return { http, requests, results, recover }
  }

  test('opens at the failure threshold, and then sends nothing', async () => {
    const { http, requests, results } = await openBreaker()
    expect(http.breakerState()).toBe('open')
    expect((await unreachable(http.send(get()))).sent).toBe(false)
    expect(requests).toHaveLength(3)
    expect(results).toEqual(['5xx', '5xx', '5xx', 'rejected'])
  })

  test('lets one probe through when half-open, and closes if it succeeds', async () => {
    const { http, requests, recover } = await openBreaker()
    advance(500)
    recover()
    const [one, ...others] = await Promise.all([1, 2, 3].map(() => send(http)))
    expect(one).toMatchObject({ status: 200 })
    for (const other of others) expect(other).toBeInstanceOf(BankUnreachableError)
    expect([requests.length, http.breakerState()]).toEqual([4, 'closed'])
    expect(await send(http)).toMatchObject({ status: 200 })
  })

  test('stays open if the probe is aborted', async () => {
    let hangs = false
    const { baseUrl, requests } = await bank((_request, response) => {
      if (!hangs) response.writeHead(500).end()
    })
    const { http } = httpTo(baseUrl, { breaker })
    for (let i = 0; i < 3; i++) await send(http)
    hangs = true
    advance(500)
    const caller = new AbortController()
    const probe = unreachable(http.send(get('x', caller.signal)))
    await until(
      async () => requests.length,
      (length) => length === 4,
    )
    caller.abort()
    await probe
    await until(
      async () => http.breakerState(),
      (state) => state === 'open',
    )
    expect(requests).toHaveLength(4)
  })

  test('stays closed after failures that are not consecutive or not recent', async () => {
    let status = 500
    const { baseUrl } = await bank((_request, response) => response.writeHead(status).end())
    const { http } = httpTo(baseUrl, { breaker })
    await send(http)
    await send(http)
    status = 404
    await send(http)
    status = 500
    await send(http)
    await send(http)
    expect(http.breakerState()).toBe('closed')
    advance(1_000)
    await send(http)
    expect(http.breakerState()).toBe('closed')
  })

  test('opens if callers abort after the bank was unresponsive', async () => {
    const { baseUrl } = await bank(() => undefined)
    const { http, results } = httpTo(baseUrl, { breaker, unresponsiveAfterMs: 10 })
    for (let i = 0; i < 3; i++) await unreachable(http.send(get('x', AbortSignal.timeout(200))))
    expect(http.breakerState()).toBe('open')
    expect(results).toEqual(['timeout', 'timeout', 'timeout'])
  })

  test('ignores requests that are aborted early', async () => {
    const { baseUrl } = await bank(() => undefined)
    const { http } = httpTo(baseUrl, { breaker })
    for (let i = 0; i < 5; i++) await unreachable(http.send(get('x', AbortSignal.timeout(20))))
    expect(http.breakerState()).toBe('closed')
  })
})
