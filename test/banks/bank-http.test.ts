import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import {
  type AddressInfo,
  createServer as createRawServer,
  type Server as RawServer,
  type Socket,
} from 'node:net'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { type BankRequest, BankUnreachable } from '../../src/banks/http/bank-http.ts'
import {
  BANK_HTTP_LIMITS,
  type BankHttpLimits,
  createBankHttp,
  type PooledBankHttp,
  type RequestResult,
} from '../../src/banks/http/create-bank-http.ts'
import { systemClock } from '../../src/core/clock.ts'
import { until } from '../protocols/rest/rest.ts'

type Answer = (request: IncomingMessage, response: ServerResponse, body: string) => void

const opened: (() => Promise<unknown>)[] = []

afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close()
})

async function listen(server: Server | RawServer): Promise<number> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => sockets.add(socket))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  opened.push(() => {
    for (const socket of sockets) socket.destroy()
    return new Promise((resolve) => server.close(resolve))
  })
  return (server.address() as AddressInfo).port
}

/** A bank that answers as told, and what it was asked. */
async function bank(answer: Answer, path = '') {
  const asked: { method: string; url: string; body: string }[] = []
  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk) => {
      body += chunk
    })
    request.on('end', () => {
      asked.push({ method: request.method!, url: request.url!, body })
      answer(request, response, body)
    })
  })
  const port = await listen(server)
  return { asked, baseUrl: `http://127.0.0.1:${port}${path}` }
}

function httpTo(baseUrl: string, limits: Partial<BankHttpLimits> = {}) {
  const seen: RequestResult[] = []
  const http = createBankHttp({
    baseUrl,
    limits: { ...BANK_HTTP_LIMITS, ...limits },
    clock: systemClock,
    observe: (result) => void seen.push(result),
  })
  opened.push(() => http.close())
  return { http, seen }
}

const get = (path = 'x', signal: AbortSignal = new AbortController().signal): BankRequest => ({
  method: 'GET',
  path,
  headers: {},
  signal,
})

const post = (body: string): BankRequest => ({ ...get(), method: 'POST', body })

const refusal = async (sending: Promise<unknown>): Promise<BankUnreachable> => {
  const error = await sending.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(BankUnreachable)
  return error as BankUnreachable
}

describe('what the bank answers is the answer, whatever its status', () => {
  test('below the path of the base URL, with headers and body as they are', async () => {
    const { baseUrl, asked } = await bank((request, response, body) => {
      response.end(`${request.headers['x-own']} ${body}`)
    }, '/api/v1/')
    const { http, seen } = httpTo(baseUrl)
    const answer = await http.send({
      ...post('{"a":1}'),
      path: 'create?x=1',
      headers: { 'X-Own': 'é' },
    })
    expect(answer).toEqual({ status: 200, text: 'é {"a":1}' })
    expect(asked).toEqual([{ method: 'POST', url: '/api/v1/create?x=1', body: '{"a":1}' }])
    expect(seen).toEqual(['2xx'])
  })

  test('a redirect is not followed', async () => {
    const { baseUrl, asked } = await bank((_request, response) => {
      response.writeHead(302, { location: '/elsewhere' }).end('moved')
    })
    expect(await httpTo(baseUrl).http.send(get())).toEqual({ status: 302, text: 'moved' })
    expect(asked).toHaveLength(1)
  })

  test('connections are kept', async () => {
    const sockets = new Set<unknown>()
    const { baseUrl } = await bank((request, response) => {
      sockets.add(request.socket)
      response.end()
    })
    const { http } = httpTo(baseUrl)
    for (let i = 0; i < 20; i++) await http.send(get())
    // The next request may begin while the connection of the one before is being put back.
    expect(sockets.size).toBeLessThanOrEqual(2)
  })
})

describe('without an answer, it is known whether the bank may have got the request', () => {
  test('nobody listens: not sent', async () => {
    const server = createServer()
    const port = await listen(server)
    await opened.pop()?.()
    const { http, seen } = httpTo(`http://127.0.0.1:${port}`)
    expect((await refusal(http.send(get()))).sent).toBe(false)
    expect(seen).toEqual(['unreachable'])
  })

  test('the name does not resolve: not sent', async () => {
    expect((await refusal(httpTo('http://nobody.invalid').http.send(get()))).sent).toBe(false)
  })

  test('TLS does not come about: not sent', async () => {
    const port = await listen(createRawServer((socket) => socket.end('no TLS here')))
    expect((await refusal(httpTo(`https://127.0.0.1:${port}`).http.send(get()))).sent).toBe(false)
  })

  test('the answer does not come: sent', async () => {
    const { baseUrl, asked } = await bank(() => undefined)
    const { http, seen } = httpTo(baseUrl, { timeoutMs: 100 })
    expect((await refusal(http.send(post('x')))).sent).toBe(true)
    expect([asked.length, seen]).toEqual([1, ['timeout']])
  })

  test('the answer does not end: sent', async () => {
    const { baseUrl } = await bank((_request, response) => void response.write('{"a":'))
    const { http } = httpTo(baseUrl, { timeoutMs: 100 })
    expect((await refusal(http.send(get()))).sent).toBe(true)
  })

  test('the connection breaks: sent', async () => {
    const { baseUrl } = await bank((request) => request.socket.destroy())
    expect((await refusal(httpTo(baseUrl).http.send(post('x')))).sent).toBe(true)
  })

  test('the answer is larger than 1 MiB: sent', async () => {
    const { baseUrl } = await bank((_request, response) => response.end('x'.repeat(1_048_577)))
    expect((await refusal(httpTo(baseUrl).http.send(get()))).sent).toBe(true)
  })

  test('the caller gives up while the bank has it: sent', async () => {
    const { baseUrl, asked } = await bank(() => undefined)
    const end = new AbortController()
    const sending = refusal(httpTo(baseUrl).http.send(get('x', end.signal)))
    await until(
      async () => asked.length,
      (length) => length === 1,
    )
    end.abort()
    expect((await sending).sent).toBe(true)
  })

  test('the connection does not stand in time: not sent, and not sent later either', async () => {
    // A listener that accepts and never speaks TLS.
    const port = await listen(createRawServer(() => undefined))
    const { http } = httpTo(`https://127.0.0.1:${port}`, { timeoutMs: 100 })
    expect((await refusal(http.send(get()))).sent).toBe(false)
  })
})

test('so many requests at once, so many wait, and the others are refused at once', async () => {
  const held: ServerResponse[] = []
  const { baseUrl } = await bank((_request, response) => void held.push(response))
  const { http, seen } = httpTo(baseUrl, { concurrency: 2, waitingMax: 3 })
  const first = [1, 2, 3, 4, 5].map(() => http.send(get()))
  await until(
    async () => held.length,
    (length) => length === 2,
  )
  expect((await refusal(http.send(get()))).sent).toBe(false)
  expect(seen).toEqual(['refused here'])
  for (let i = 0; i < 5; i++) {
    const response = await until(
      async () => held.shift(),
      (next) => next !== undefined,
    )
    response!.end('ok')
  }
  expect(await Promise.all(first)).toHaveLength(5)
  expect(http.breakerState()).toBe('closed')
})

test('who waits longer than the limit for a place leaves, and it was not sent', async () => {
  const { baseUrl, asked } = await bank(() => undefined)
  const { http } = httpTo(baseUrl, { concurrency: 1, timeoutMs: 150 })
  const sent = await Promise.all([refusal(http.send(get('a'))), refusal(http.send(get('b')))])
  expect(sent.map((each) => each.sent)).toEqual([true, false])
  expect(asked.map((each) => each.url)).toEqual(['/a'])
})

test('who gives up while waiting for a place is told at once', async () => {
  const { baseUrl, asked } = await bank(() => undefined)
  const { http, seen } = httpTo(baseUrl, { concurrency: 1 })
  const first = refusal(http.send(get('a')))
  await until(
    async () => asked.length,
    (length) => length === 1,
  )
  const error = await refusal(http.send(get('b', AbortSignal.timeout(20))))
  expect([error.sent, seen]).toEqual([false, ['refused here']])
  await opened.pop()?.()
  expect((await first).sent).toBe(true)
})

describe('the breaker', () => {
  // Cockatiel reads the time from Date.
  beforeEach(() => void vi.useFakeTimers({ toFake: ['Date'] }))
  afterEach(() => void vi.useRealTimers())
  const advance = (ms: number) => void vi.setSystemTime(Date.now() + ms)

  const breaker = { failuresMax: 3, windowMs: 1_000, openMs: 500 }
  const send = (http: PooledBankHttp) => http.send(get()).catch((error: unknown) => error)

  async function broken() {
    let status = 500
    const { baseUrl, asked } = await bank((_request, response) => response.writeHead(status).end())
    const { http, seen } = httpTo(baseUrl, { breaker })
    for (let i = 0; i < 3; i++) await send(http)
    const mend = () => {
      status = 200
    }
    return { http, asked, seen, mend }
  }

  test('opens after so many failures, and then nothing is sent', async () => {
    const { http, asked, seen } = await broken()
    expect(http.breakerState()).toBe('open')
    expect((await refusal(http.send(get()))).sent).toBe(false)
    expect(asked).toHaveLength(3)
    expect(seen).toEqual(['5xx', '5xx', '5xx', 'refused here'])
  })

  test('lets one request try after a while, and closes when it goes well', async () => {
    const { http, asked, mend } = await broken()
    advance(500)
    mend()
    const [one, ...others] = await Promise.all([1, 2, 3].map(() => send(http)))
    expect(one).toMatchObject({ status: 200 })
    for (const other of others) expect(other).toBeInstanceOf(BankUnreachable)
    expect([asked.length, http.breakerState()]).toEqual([4, 'closed'])
    expect(await send(http)).toMatchObject({ status: 200 })
  })

  test('says that one may try as soon as one may', async () => {
    const { http } = await broken()
    advance(499)
    expect(http.breakerState()).toBe('open')
    advance(1)
    expect(http.breakerState()).toBe('half open')
  })

  test('stays open when nobody waits for that one', async () => {
    let hangs = false
    const { baseUrl, asked } = await bank((_request, response) => {
      if (!hangs) response.writeHead(500).end()
    })
    const { http } = httpTo(baseUrl, { breaker })
    for (let i = 0; i < 3; i++) await send(http)
    hangs = true
    advance(500)
    await refusal(http.send(get('x', AbortSignal.timeout(30))))
    await until(
      async () => http.breakerState(),
      (state) => state === 'open',
    )
    expect(asked).toHaveLength(4)
  })

  test('stays open when that one fails', async () => {
    const { http } = await broken()
    advance(500)
    await send(http)
    expect(http.breakerState()).toBe('open')
  })

  test('failures with successes between, or long ago, do not open it', async () => {
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

  test('opens when callers give up after the bank was silent for long', async () => {
    const { baseUrl } = await bank(() => undefined)
    const { http, seen } = httpTo(baseUrl, { breaker, silenceMs: 10 })
    for (let i = 0; i < 3; i++) await refusal(http.send(get('x', AbortSignal.timeout(30))))
    expect(http.breakerState()).toBe('open')
    expect(seen).toEqual(['timeout', 'timeout', 'timeout'])
  })

  test('a caller who gives up soon says nothing of the bank', async () => {
    const { baseUrl } = await bank(() => undefined)
    const { http } = httpTo(baseUrl, { breaker })
    for (let i = 0; i < 5; i++) await refusal(http.send(get('x', AbortSignal.timeout(20))))
    expect(http.breakerState()).toBe('closed')
  })
})
