import fc from 'fast-check'
import { Client } from 'undici'
import { describe, expect, test } from 'vitest'
import { answering, closing, OK, poster, receiver } from './raw-receiver.ts'

describe('an answer', () => {
  test('comes after informational ones', async () => {
    const peer = await answering(
      `HTTP/1.1 100 Continue\r\n\r\n${'HTTP/1.1 102 Wait\r\n\r\n'.repeat(9)}${OK}`,
    )
    const { post } = poster()
    for (let i = 0; i < 3; i++) {
      expect(await post(peer.url, {}, '1')).toMatchObject({ status: 200, answer: 'ok' })
    }
    expect(peer.all).toHaveLength(1)
  })

  test.each([
    ['switches to something else', 'HTTP/1.1 101 Switching\r\nupgrade: x\r\n\r\n'],
    ['is informational for ever', 'HTTP/1.1 102 Wait\r\n\r\n'.repeat(500)],
    ['has two lengths', OK.replace('OK', 'OK\r\ncontent-length: 3')],
    ['has a length and chunks', OK.replace('OK', 'OK\r\ntransfer-encoding: chunked')],
    ['has lines that end with LF', OK.replaceAll('\r', '')],
    ['has a folded header', OK.replace('OK', 'OK\r\nx: y\r\n z')],
  ])('that %s is not HTTP', async (_, answer) => {
    const peer = await answering(answer)
    const { post } = poster()
    const outcome = await post(peer.url, {}, '1')
    expect(outcome).toMatchObject({ status: undefined, error: 'the answer is not HTTP' })
    await peer.all[0]!.closed
  })

  test('may end with the connection, in good order or not', async () => {
    const peer = await receiver(async ({ socket, requests }, index) => {
      await requests(1)
      socket.write('HTTP/1.1 200 OK\r\n\r\nall of it', () => {
        if (index === 0) socket.end()
        else socket.resetAndDestroy()
      })
    })
    const { post } = poster()
    expect(await post(peer.url, {}, '1')).toMatchObject({ status: 200, answer: 'all of it' })
    expect(await post(peer.url, {}, '2')).toMatchObject({ status: 200, error: '' })
  })

  test.each(['reset', 'closed'])('that is %s within its head is none', async (how) => {
    const peer = await receiver(async ({ socket, requests }) => {
      await requests(1)
      socket.write(OK.slice(0, 30), () => {
        if (how === 'reset') socket.resetAndDestroy()
        else socket.end()
      })
    })
    const { error, status } = await poster().post(peer.url, {}, '1')
    expect({ error, status }).toEqual({
      error: 'connection closed without an answer',
      status: undefined,
    })
  })

  test('that is not whole when all is closed is none, and nothing is sent any more', async () => {
    const peer = await receiver(({ socket }) => socket.write('HTTP/1.1 200 OK\r\n'))
    const { post, close } = poster()
    const under = post(peer.url, {}, '1')
    const [accepted] = await until(() => (peer.all.length > 0 ? peer.all : undefined))
    await accepted!.requests(1)
    await close()
    expect(await under).toMatchObject({ status: undefined, error: 'the service stopped' })
    await accepted!.closed
    expect((await post(peer.url, {}, '2')).error).toBe('the service stopped')
    expect(peer.all).toHaveLength(1)
  })
})

/** What undici makes of an answer. */
async function throughUndici(url: string) {
  const client = new Client(url)
  closing.push(() => client.destroy())
  const { statusCode, headers, body } = await client.request({
    path: '/',
    method: 'POST',
    body: '1',
  })
  const text = Buffer.from(await body.arrayBuffer())
    .toString('utf8')
    .replaceAll('\0', '')
  return { status: statusCode, answer: text, retryAfter: headers['retry-after'] }
}

test('what answers say is what undici makes of them', async () => {
  let answer = ''
  const peer = await receiver(async ({ socket, requests }) => {
    await requests(1)
    socket.end(answer)
  })
  const { post } = poster()
  const text = fc.stringMatching(/^[ -~]{0,60}$/)
  const framing = fc.constantFrom<'length' | 'chunks' | 'close'>('length', 'chunks', 'close')
  const retry = fc.option(fc.stringMatching(/^[!-~]{1,9}$/), { nil: undefined })
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 200, max: 599 }),
      text,
      framing,
      retry,
      async (status, body, how, after) => {
        const bare = status === 204 || status === 304
        const headers = [
          'Server: some',
          'Date: now',
          ...(after === undefined ? [] : [`Retry-After: ${after}`]),
        ]
        if (how === 'length' && !bare) headers.push(`Content-Length: ${body.length}`)
        if (how === 'chunks' && !bare) headers.push('Transfer-Encoding: chunked')
        const chunk = body === '' ? '' : `${body.length.toString(16)}\r\n${body}\r\n`
        const content = how === 'chunks' ? `${chunk}0\r\n\r\n` : body
        answer = `HTTP/1.1 ${status} Some\r\n${headers.join('\r\n')}\r\n\r\n${bare ? '' : content}`
        const { error: _, ...ours } = await post(peer.url, {}, '1')
        expect(ours).toEqual(await throughUndici(peer.url))
      },
    ),
    { numRuns: 50 },
  )
})

async function until<T>(look: () => T | undefined): Promise<T> {
  for (;;) {
    const found = look()
    if (found !== undefined) return found
    await new Promise((resolve) => setImmediate(resolve))
  }
}
