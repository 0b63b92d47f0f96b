import { connect } from 'node:net'
import { mutate } from './messages.ts'
import type { Random } from './random.ts'
import { hostileText } from './words.ts'

/** What comes back is waited for this long; the other side may rightly wait for more. */
const PATIENCE_MS = 60

/** Something that is almost HTTP/1.1, or nothing at all. */
export function rawHttp(random: Random): Buffer {
  if (random.chance(0.2)) return random.bytes(random.int(400))
  const text = hostileText(random).toWellFormed()
  const lines = [
    random.pick([
      'POST /v2/thirdparty/getTransaction/ HTTP/1.1',
      `POST /v2/thirdparty/${text} HTTP/1.1`,
      `${text} / HTTP/1.1`,
      'GET / HTTP/9.9',
      'POST http://other.example/v2/thirdparty/getTransaction/ HTTP/1.1',
      'PRI * HTTP/2.0',
      'CONNECT 127.0.0.1:22 HTTP/1.1',
    ]),
    ...(random.chance(0.8) ? ['Host: x'] : []),
    ...(random.chance(0.5) ? ['Content-Type: application/json'] : []),
    random.pick([
      'Content-Length: 2',
      'Content-Length: -1',
      'Content-Length: 99999999999999999999',
      'Content-Length: 2\r\nContent-Length: 3',
      'Content-Length: 2\r\nTransfer-Encoding: chunked',
      'Transfer-Encoding: chunked, identity',
      'Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx',
      `X: ${text}`,
      `${text}: x`,
      `X: ${'y'.repeat(20_000)}`,
      ' folded: x',
      'Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAAP__',
    ]),
  ]
  const whole = Buffer.from(`${lines.join('\r\n')}\r\n\r\n{}`)
  return random.chance(0.3) ? mutate(random, whole) : whole
}

const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')

/** Frames of HTTP/2 that follow each other in no good order, and are no good themselves. */
export function rawHttp2(random: Random): Buffer {
  if (random.chance(0.15)) return random.bytes(random.int(400))
  const frames = Array.from({ length: 1 + random.int(12) }, () => {
    const payload = random.bytes(random.int(40))
    const head = Buffer.alloc(9)
    head.writeUIntBE(random.chance(0.9) ? payload.length : random.int(2 ** 24), 0, 3)
    head.writeUInt8(random.int(12), 3)
    head.writeUInt8(random.int(256), 4)
    head.writeUInt32BE(random.chance(0.7) ? random.int(8) : random.int(2 ** 32), 5)
    return Buffer.concat([head, payload])
  })
  const settings = Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0])
  return Buffer.concat([...(random.chance(0.9) ? [PREFACE, settings] : []), ...frames])
}

/** Sends bytes and hangs up. @returns what came back until then */
export function sendBytes(url: string, bytes: Buffer): Promise<Buffer> {
  return new Promise((resolve) => {
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    const chunks: Buffer[] = []
    const timer = setTimeout(() => socket.destroy(), PATIENCE_MS)
    socket.on('data', (chunk: Buffer) => chunks.push(chunk))
    socket.on('error', () => undefined)
    socket.on('close', () => {
      clearTimeout(timer)
      resolve(Buffer.concat(chunks))
    })
    socket.write(bytes)
  })
}
