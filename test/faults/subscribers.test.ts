import { connect } from 'node:http2'
import { create, toBinary } from '@bufbuild/protobuf'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { EventService, SubscribeRequestSchema } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { useDatabase } from '../support/database.ts'
import { sequence, writeEvents } from '../support/events.ts'
import { type ServiceProcess, startProcess } from '../support/process.ts'
import { ADMIN_TOKEN } from '../support/service.ts'
import { WAIT_LIMIT_MS } from '../support/wait-for.ts'

const READERS = 100
const STALLED = 900
const EVENTS = 1_000

const db = useDatabase()
let service: ServiceProcess

beforeAll(async () => {
  // With this small heap, buffering events for stalled subscribers would end the process.
  service = await startProcess({
    DATABASE_URL: db.url,
    NODE_OPTIONS: '--max-old-space-size=256',
  })
})

afterAll(async () => {
  await service?.kill()
})

async function metric(name: string): Promise<number> {
  const text = await (await fetch(`${service.httpUrl}/metrics`)).text()
  return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1])
}

/** Opens raw HTTP/2 streams, so that a stalled subscriber really never reads. */
function openStreams(count: number, reads: boolean) {
  const session = connect(service.grpcUrl, {
    settings: { initialWindowSize: reads ? 2 ** 31 - 1 : 65_535 },
  })
  const problems: string[] = []
  session.on('error', (error) => problems.push(`connection: ${error}`))
  session.on('goaway', (code) => problems.push(`connection: GOAWAY ${code}`))
  if (reads) session.on('connect', () => session.setLocalWindowSize(2 ** 31 - 1))
  const message = toBinary(SubscribeRequestSchema, create(SubscribeRequestSchema))
  const head = Buffer.alloc(5)
  head.writeUInt32BE(message.length, 1)
  let bytes = 0
  let unavailable = 0
  const open = () => {
    const stream = session.request({
      ':method': 'POST',
      ':path': `/${EventService.typeName}/Subscribe`,
      'content-type': 'application/grpc',
      te: 'trailers',
      authorization: `Bearer ${ADMIN_TOKEN}`,
    })
    stream.on('error', (error) => problems.push(`stream: ${error}`))
    stream.on('trailers', ({ 'grpc-status': status, 'grpc-message': text }) => {
      // A machine that starves the service or its database ends streams; subscribers come back.
      if (status !== '14') problems.push(`stream: ${status} ${text}`)
      unavailable++
      open()
    })
    if (reads) {
      stream.on('data', (chunk: Buffer) => {
        bytes += chunk.length
      })
    }
    stream.end(Buffer.concat([head, message]))
  }
  for (let i = 0; i < count; i++) open()
  return { session, received: () => bytes, unavailable: () => unavailable, problems }
}

test('1,000 subscribers, 900 of which never read: memory stays flat and all streams are released', async () => {
  const readers = openStreams(READERS, true)
  const stalled = openStreams(STALLED, false)
  const waiting = (count: number) =>
    vi.waitFor(async () => expect(await metric('inflow_event_subscribers_waiting')).toBe(count), {
      timeout: WAIT_LIMIT_MS,
      interval: 100,
    })
  await waiting(READERS + STALLED)
  const publish = async () => {
    const before = readers.received()
    const endedBefore = readers.unavailable()
    const [id] = await writeEvents(db.database.durablePool, EVENTS)
    expect(id).toBeDefined()
    await sequence(db.database.durablePool)
    // Wait until all readers have received the events of this round.
    await vi.waitFor(
      () => {
        expect(readers.problems.slice(0, 3)).toEqual([])
        // A stream that was opened again gets the events from then on.
        const whole = READERS - (readers.unavailable() - endedBefore)
        expect(readers.received() - before).toBeGreaterThanOrEqual(whole * EVENTS * 100)
      },
      { timeout: WAIT_LIMIT_MS, interval: 100 },
    )
  }
  // The first rounds fill the tail and the flow-control windows of the stalled subscribers.
  for (let i = 0; i < 2; i++) await publish()
  const before = await metric('process_resident_memory_bytes')
  await publish()
  const after = await metric('process_resident_memory_bytes')
  // Otherwise nothing was shown.
  expect(readers.unavailable()).toBeLessThan(2 * READERS)
  console.log(`${readers.unavailable()} streams ended unavailable`)
  console.log(`resident: ${Math.round(before / 2 ** 20)} → ${Math.round(after / 2 ** 20)} MiB`)
  expect(after - before).toBeLessThan(100 * 2 ** 20)
  readers.session.destroy()
  stalled.session.destroy()
  await waiting(0)
}, 600_000)
