import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { rm, writeFile } from 'node:fs/promises'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { makeFolder } from '../../support/folder.ts'
import { until } from '../fixture.ts'
import { makeCertificate } from './certificate.ts'
import { closing, httpClient, LOOPBACK, OK, receiver, responding } from './raw-receiver.ts'

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

test('a body may be empty, or any Unicode text', async () => {
  const peer = await receiver(({ socket }) => socket.on('data', () => socket.write(OK)))
  const { post } = httpClient({ concurrency: 1 })
  expect((await post(peer.url, {}, '')).status).toBe(200)
  expect((await post(peer.url, {}, 'ệ')).status).toBe(200)
  const [, first, second] = peer.all[0]!.text().split(/POST/)
  expect(first).toMatch(/content-length: 0\r\n\r\n$/)
  expect(Buffer.from(second!, 'latin1').toString()).toMatch(/content-length: 3\r\n\r\nệ$/)
})

test.each([
  ['a line break', 'b\r\nc: d'],
  ['NUL', 'b\0'],
  ['characters beyond latin1', 'ệ'],
])('a header with %s is rejected', async (_, value) => {
  const peer = await responding()
  const { post } = httpClient()
  await expect(post(peer.url, { a: value }, '1')).rejects.toThrow('invalid a header')
  expect(peer.all).toHaveLength(0)
})

describe('a connection is not reused', () => {
  test.each([
    ['the receiver closes it', OK.replace('OK', 'OK\r\nconnection: close')],
    ['the receiver speaks HTTP/1.0', OK.replace('1.1', '1.0')],
    ['its keep-alive time is nearly over', OK.replace('OK', 'OK\r\nkeep-alive: timeout=2')],
    ['a second response follows the first', `${OK}HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n`],
    ['a stray line follows the response', `${OK}\r\n`],
    ['a 204 has a body', 'HTTP/1.1 204 No\r\ncontent-length: 2\r\n\r\n'],
    [
      'chunk sizes are wrong',
      'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\nok\r\n0\r\n\r\n',
    ],
  ])('when %s', async (_, response) => {
    const peer = await responding(response)
    const { post } = httpClient()
    expect((await post(peer.url, {}, '1')).error).toBe('')
    await peer.all[0]!.closed
    expect(await post(peer.url, {}, '2')).toMatchObject({ status: 200, responseBody: 'ok' })
    expect(peer.all).toHaveLength(2)
  })

  test('when a second response arrives while it is idle', async () => {
    const peer = await responding()
    const { post } = httpClient()
    expect((await post(peer.url, {}, '1')).status).toBe(200)
    const [first] = peer.all
    first!.socket.write('HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n')
    await first!.closed
    expect((await post(peer.url, {}, '2')).status).toBe(200)
    expect(peer.all).toHaveLength(2)
  })

  test.each(['closed', 'reset', 'written to'])(
    'when the receiver has %s it and that is not read yet',
    async (how) => {
      const peer = await responding()
      const { post } = httpClient()
      expect((await post(peer.url, {}, '1')).status).toBe(200)
      const { socket } = peer.all[0]!
      // Idle for long enough that the client checks it before reuse.
      const sinceMs = performance.now()
      while (performance.now() - sinceMs < 5) {}
      if (how === 'closed') socket.destroy()
      else if (how === 'reset') socket.resetAndDestroy()
      else socket.write('HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n')
      expect(await post(peer.url, {}, '2')).toMatchObject({ status: 200, responseBody: 'ok' })
      expect(peer.all).toHaveLength(2)
    },
  )

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

  test('when it was idle for the receiver’s keep-alive time', async () => {
    const peer = await responding(OK.replace('OK', 'OK\r\nkeep-alive: timeout=3'))
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
  await until(async () => slow.all[0]?.text())
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

test('a TLS connection is reused', async () => {
  const certificate = makeCertificate()
  const folder = await makeFolder('webhooks')
  closing.push(() => rm(folder, { recursive: true }))
  const authority = join(folder, 'ca.pem')
  await writeFile(authority, certificate.cert)
  let connections = 0
  const server = createTlsServer(certificate, (request, response) => {
    request.resume().once('end', () => response.end('ok'))
  })
  server.on('secureConnection', () => {
    connections += 1
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closing.push(() => new Promise((resolve) => server.close(resolve)))
  const url = `https://localhost:${(server.address() as AddressInfo).port}/`
  const child = await posted(url, 5, { NODE_EXTRA_CA_CERTS: authority })
  expect(child).toEqual({ code: 0, output: '200ok 200ok 200ok 200ok 200ok ' })
  expect(connections).toBe(1)
})

test('an idle connection does not keep the process alive', async () => {
  const peer = await responding(OK.replace('OK', 'OK\r\nkeep-alive: timeout=600'))
  expect(await posted(peer.url, 1, {})).toEqual({ code: 0, output: '200ok ' })
})

describe('a response', () => {
  test('may follow informational responses', async () => {
    const peer = await responding(
      `${'HTTP/1.1 102 Wait\r\n\r\n'.repeat(9)}HTTP/1.1 103 Early Hints\r\n\r\n${OK}`,
    )
    const { post } = httpClient({ concurrency: 1 })
    for (let i = 0; i < 3; i++) {
      expect(await post(peer.url, {}, '1')).toMatchObject({ status: 200, responseBody: 'ok' })
    }
    expect(peer.all).toHaveLength(1)
  })

  test.each([
    ['switches protocols', 'HTTP/1.1 101 Switching\r\nupgrade: x\r\n\r\n'],
    ['is informational without end', 'HTTP/1.1 102 Wait\r\n\r\n'.repeat(500)],
    ['has two lengths', OK.replace('OK', 'OK\r\ncontent-length: 3')],
    ['has a length and chunks', OK.replace('OK', 'OK\r\ntransfer-encoding: chunked')],
    ['has lines that end with LF', OK.replaceAll('\r', '')],
    ['has a folded header', OK.replace('OK', 'OK\r\nx: y\r\n z')],
  ])('that %s is not HTTP', async (_, response) => {
    const peer = await responding(response)
    const { post } = httpClient()
    const outcome = await post(peer.url, {}, '1')
    expect(outcome).toMatchObject({ status: undefined, error: 'the response is not HTTP' })
    await peer.all[0]!.closed
  })

  test('may end with the connection, closed or reset', async () => {
    const peer = await receiver(async ({ socket, requests }, index) => {
      await requests(1)
      socket.write('HTTP/1.1 200 OK\r\n\r\nall of it', () => {
        if (index === 0) socket.end()
        else socket.resetAndDestroy()
      })
    })
    const { post } = httpClient()
    expect(await post(peer.url, {}, '1')).toMatchObject({ status: 200, responseBody: 'all of it' })
    expect(await post(peer.url, {}, '2')).toMatchObject({ status: 200, error: '' })
  })

  test.each(['reset', 'closed'])('that is %s within its headers counts as none', async (how) => {
    const peer = await receiver(async ({ socket, requests }) => {
      await requests(1)
      socket.write(OK.slice(0, 30), () => {
        if (how === 'reset') socket.resetAndDestroy()
        else socket.end()
      })
    })
    const { error, status } = await httpClient().post(peer.url, {}, '1')
    expect({ error, status }).toEqual({
      error: 'connection closed without a response',
      status: undefined,
    })
  })

  test('that is incomplete when the client closes counts as none, and no more are sent', async () => {
    const peer = await receiver(({ socket }) => socket.write('HTTP/1.1 200 OK\r\n'))
    const { post, close } = httpClient()
    const pending = post(peer.url, {}, '1')
    const [accepted] = await until(async () => (peer.all.length > 0 ? peer.all : undefined))
    await accepted!.requests(1)
    await close()
    expect(await pending).toMatchObject({ status: undefined, error: 'the service stopped' })
    await accepted!.closed
    expect((await post(peer.url, {}, '2')).error).toBe('the service stopped')
    expect(peer.all).toHaveLength(1)
  })
})

/** Posts the given number of times from a child process. @returns its exit code and outcomes */
async function posted(url: string, times: number, environment: NodeJS.ProcessEnv) {
  const src = join(import.meta.dirname, '../../../src/webhooks')
  const script = `
    import { createAddressGuard } from '${src}/sender/address-guard.ts'
    import { createHttpClient } from '${src}/sender/http-client.ts'
    const rules = { allowHttp: true, guard: createAddressGuard(['127.0.0.0/8']) }
    const resolve = async () => [{ address: '127.0.0.1', family: 4 }]
    const { post } = createHttpClient({ rules, timeoutMs: 15_000, resolve })
    for (let i = 0; i < ${times}; i++) {
      const to = { endpointId: 'ep_1', url: '${url}', concurrency: 1 }
      const { status, responseBody, error } = await post(to, {}, '1')
      process.stdout.write(status + responseBody + error + ' ')
    }`
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    env: { ...process.env, ...environment },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let output = ''
  child.stdout.on('data', (chunk) => {
    output += chunk
  })
  const [code] = await once(child, 'close')
  return { code, output }
}
