import { connect as connectHttp2 } from 'node:http2'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { TransactionService } from '../../gen/inflow/transaction/v1/transaction_service_pb.ts'
import { FRAME, frame, framed, literals, openRaw, uint32 } from '../protocols/grpc/http2-frames.ts'
import { useDatabase } from '../support/database.ts'
import { type Pressure, underPressure } from '../support/pressure.ts'
import { type ServiceProcess, startProcess } from '../support/process.ts'

/**
 * What strangers do to the gRPC port of a service, which runs as a process of its own: whatever it
 * is, the memory of the service and the delay of its event loop stay bounded, and others are served.
 */

const db = useDatabase()
let service: ServiceProcess

beforeAll(async () => {
  service = await startProcess({ DATABASE_URL: db.url, NODE_OPTIONS: HEAP })
  // What the first calls load is not what an attack costs.
  await underPressure(service, () => floodWithChecks(2_000))
})

afterAll(async () => {
  expect(await service.stop()).toBe(0)
})

const MIB = 1024 * 1024
const CHECK = '/grpc.health.v1.Health/Check'
const WATCH = '/grpc.health.v1.Health/Watch'
const LOOK_UP = `/${TransactionService.typeName}/${TransactionService.method.getTransaction.name}`

/** With little room the process collects what it does not need, instead of when it likes to. */
const HEAP = '--max-old-space-size=128 --max-semi-space-size=2'

/** Far below what each attack would come to where nothing bounds it; it is 200 before the first. */
const RESIDENT_MIB_MAX = 450
/** For a machine that has much else to do. */
const LAG_MS_MAX = 60_000
/** More than any attack may send before it is cut off. */
const FLOOD_BYTES_MAX = 64 * MIB

function expectBounded({ residentMiB, lagMs, answered }: Pressure): void {
  expect(residentMiB).toBeLessThan(RESIDENT_MIB_MAX)
  expect(lagMs).toBeLessThan(LAG_MS_MAX)
  expect(answered).toBeGreaterThan(0)
}

const headersOf = (path: string) =>
  literals({
    ':method': 'POST',
    ':scheme': 'http',
    ':path': path,
    ':authority': 'x',
    'content-type': 'application/grpc',
    te: 'trailers',
  })

const END_HEADERS = 0x4
const END_STREAM = 0x1
const ZERO_WINDOW = Buffer.concat([Buffer.of(0, 4), uint32(0)])

const openStream = (id: number, path: string) =>
  frame(FRAME.headers, END_HEADERS, id, headersOf(path))
const callOf = (id: number, path: string) =>
  Buffer.concat([openStream(id, path), frame(FRAME.data, END_STREAM, id, framed(Buffer.alloc(0)))])
const many = (count: number, make: (index: number) => Buffer) =>
  Buffer.concat(Array.from({ length: count }, (_, index) => make(index)))

/** Calls of Node's own HTTP/2, whose answers have no room. Ends when each stream has ended. */
async function callBehindZeroWindow(path: string, count: number, body: Buffer): Promise<void> {
  const session = connectHttp2(service.grpcUrl, { settings: { initialWindowSize: 0 } })
  onTestFinished(() => session.destroy())
  session.on('error', () => undefined)
  const uploads = Array.from({ length: count }, () => {
    const stream = session.request({
      ':method': 'POST',
      ':path': path,
      'content-type': 'application/grpc',
      ...(body[0] === 1 && { 'grpc-encoding': 'gzip' }),
    })
    stream.on('error', () => undefined)
    stream.end(body)
    return new Promise<void>((resolve) => {
      stream.once('finish', resolve)
      stream.once('close', () => resolve())
    })
  })
  const closed = new Promise<void>((resolve) => session.once('close', () => resolve()))
  await Promise.race([Promise.all(uploads), closed])
}

async function floodWithChecks(count: number): Promise<void> {
  const session = connectHttp2(service.grpcUrl)
  const calls = Array.from({ length: count }, () => {
    const stream = session.request({
      ':method': 'POST',
      ':path': CHECK,
      'content-type': 'application/grpc',
    })
    stream.end(framed(Buffer.alloc(0)))
    stream.resume()
    return new Promise((resolve) => stream.once('close', resolve))
  })
  await Promise.all(calls)
  session.close()
}

test.each([
  ['health', CHECK],
  ['a method that asks for a credential', LOOK_UP],
])('300 bodies of 1 MiB to %s behind a window of zero', async (_, path) => {
  const body = framed(Buffer.alloc(MIB))
  expectBounded(await underPressure(service, () => callBehindZeroWindow(path, 300, body)))
})

test.each([
  ['health', CHECK],
  ['a method that asks for a credential', LOOK_UP],
])('500 messages to %s that expand to 4 MiB each', async (_, path) => {
  const bomb = framed(gzipSync(Buffer.alloc(4 * MIB - 100)))
  bomb[0] = 1
  expectBounded(await underPressure(service, () => callBehindZeroWindow(path, 500, bomb)))
})

/** HPACK: the length of a text of 127 to 16,510 bytes. */
const longLength = (bytes: number) =>
  Buffer.of(0x7f, ((bytes - 127) % 128) | 0x80, Math.floor((bytes - 127) / 128))

test('headers that a few bytes of compression expand to 60 KiB each', async () => {
  // A field of 3,900 bytes goes into the table of the connection; then one byte each stands for it.
  const value = Buffer.alloc(3_900, 'v')
  const length = longLength(value.length)
  const field = Buffer.concat([Buffer.of(0x40, 1), Buffer.from('z'), length, value])
  const first = frame(FRAME.headers, END_HEADERS, 1, Buffer.concat([headersOf(WATCH), field]))
  const bomb = Buffer.concat([headersOf(WATCH), Buffer.alloc(15, 0xbe)])
  const attack = async () => {
    for (let round = 0; round < 20; round++) {
      const raw = openRaw(service.grpcAddress, true, ZERO_WINDOW)
      raw.socket.write(
        Buffer.concat([
          first,
          many(900, (index) => frame(FRAME.headers, END_HEADERS, index * 2 + 3, bomb)),
        ]),
      )
      await raw.settle()
    }
  }
  expectBounded(await underPressure(service, attack))
})

test('a long header that few bytes stand for is not repeated in as many errors', async () => {
  const path = Buffer.concat([Buffer.from('/'), Buffer.alloc(3_899, 'é')])
  const length = longLength(path.length)
  const rest = literals({
    ':method': 'POST',
    ':scheme': 'http',
    'content-type': 'application/grpc',
  })
  // Field 4 of the static table is `:path`; 62 is the first of the connection's own.
  const first = Buffer.concat([Buffer.of(0x44), length, path, rest])
  const again = Buffer.concat([Buffer.of(0xbe), rest])
  const raw = openRaw(service.grpcAddress)
  let received = 0
  raw.socket.on('data', (chunk) => {
    received += chunk.length
  })
  raw.socket.write(
    Buffer.concat([
      frame(FRAME.headers, END_HEADERS | END_STREAM, 1, first),
      many(500, (index) => frame(FRAME.headers, END_HEADERS | END_STREAM, index * 2 + 3, again)),
    ]),
  )
  await raw.settle()
  expect(received).toBeGreaterThan(0)
  expect(received / 501).toBeLessThan(1_000)
})

test.each<[string, boolean, (round: number) => Buffer]>([
  [
    'PINGs whose answers are not read',
    false,
    () => many(2_000, () => frame(FRAME.ping, 0, 0, Buffer.alloc(8))),
  ],
  [
    'SETTINGS that are not read',
    false,
    () => many(500, () => frame(FRAME.settings, 0, 0, Buffer.alloc(0))),
  ],
  ['WINDOW_UPDATEs', true, () => many(2_000, () => frame(FRAME.windowUpdate, 0, 0, uint32(1)))],
  ['unknown frames', true, () => many(2_000, () => frame(0xee, 0, 0, Buffer.alloc(8)))],
  [
    'resets (rapid reset)',
    true,
    (round) =>
      many(20, (index) => {
        const id = (round * 20 + index) * 2 + 1
        return Buffer.concat([openStream(id, LOOK_UP), frame(FRAME.reset, 0, id, uint32(8))])
      }),
  ],
  [
    'faults that make the server reset (MadeYouReset)',
    true,
    (round) =>
      many(20, (index) => {
        const id = (round * 20 + index) * 2 + 1
        return Buffer.concat([openStream(id, LOOK_UP), frame(FRAME.windowUpdate, 0, id, uint32(0))])
      }),
  ],
  [
    'CONTINUATIONs',
    true,
    (round) =>
      round === 0
        ? frame(FRAME.headers, 0, 1, headersOf(LOOK_UP))
        : many(10, () => frame(FRAME.continuation, 0, 1, literals({ 'x-y': 'z'.repeat(100) }))),
  ],
])('a flood of %s is cut off', async (_, reads, next) => {
  const attack = async () => {
    const raw = openRaw(service.grpcAddress, reads)
    await raw.flood(next, FLOOD_BYTES_MAX)
    expect(raw.socket.bytesWritten).toBeLessThan(FLOOD_BYTES_MAX)
  }
  expectBounded(await underPressure(service, attack))
})

test.each<[string, (ids: readonly number[]) => Buffer]>([
  [
    'WINDOW_UPDATEs',
    (ids) => many(9_000, (n) => frame(FRAME.windowUpdate, 0, ids[n % ids.length] ?? 1, uint32(1))),
  ],
  [
    'windows that change for all at once',
    () =>
      many(900, (n) =>
        frame(FRAME.settings, 0, 0, Buffer.concat([Buffer.of(0, 4), uint32(n % 2)])),
      ),
  ],
])('1,000 streams whose windows are shut, and %s', async (_, next) => {
  const ids = Array.from({ length: 1_000 }, (__, n) => n * 2 + 1)
  const attack = async () => {
    const raw = openRaw(service.grpcAddress, true, ZERO_WINDOW)
    raw.socket.write(Buffer.concat(ids.map((id) => callOf(id, WATCH))))
    await raw.flood(() => next(ids), 4 * MIB)
  }
  expectBounded(await underPressure(service, attack))
})

test('reflection whose answers are not read', async () => {
  const list = Buffer.concat([Buffer.of(0x1a, 0x07), Buffer.from('inflow.')])
  const path = '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo'
  const ids = Array.from({ length: 500 }, (_, n) => n * 2 + 1)
  const attack = async () => {
    const raw = openRaw(service.grpcAddress, true, ZERO_WINDOW)
    raw.socket.write(Buffer.concat(ids.map((id) => openStream(id, path))))
    await raw.flood(
      () => Buffer.concat(ids.map((id) => frame(FRAME.data, 0, id, framed(list)))),
      8 * MIB,
    )
  }
  expectBounded(await underPressure(service, attack))
})
