import { connect, type IncomingHttpHeaders } from 'node:http2'
import { create, toBinary } from '@bufbuild/protobuf'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { EventService, SubscribeRequestSchema } from '../../gen/inflow/event/v1/event_service_pb.ts'
import { framed } from '../protocols/grpc/http2-frames.ts'
import { useDatabase } from '../support/database.ts'
import { sequence, writeEvents } from '../support/events.ts'
import { type ServiceProcess, startProcess } from '../support/process.ts'
import { scrape } from '../support/scrape.ts'
import { ADMIN_TOKEN } from '../support/service.ts'
import { waitFor } from '../support/wait-for.ts'

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

const metric = async (name: string) => (await scrape(service.httpUrl)).value(name)!

/** Opens raw HTTP/2 streams, so that a stalled subscriber really never reads. */
function openStreams(count: number, reads: boolean) {
  const session = connect(service.grpcUrl, {
    settings: { initialWindowSize: reads ? 2 ** 31 - 1 : 65_535 },
  })
  const problems: string[] = []
  session.on('error', (error) => problems.push(`connection: ${error}`))
  session.on('goaway', (code) => problems.push(`connection: GOAWAY ${code}`))
  if (reads) session.on('connect', () => session.setLocalWindowSize(2 ** 31 - 1))
  const message = framed(
    Buffer.from(toBinary(SubscribeRequestSchema, create(SubscribeRequestSchema))),
  )
  let bytes = 0
  let unavailable = 0
  let subscribed = 0
  const open = () => {
    const stream = session.request({
      ':method': 'POST',
      ':path': `/${EventService.typeName}/Subscribe`,
      'content-type': 'application/grpc',
      te: 'trailers',
      authorization: `Bearer ${ADMIN_TOKEN}`,
    })
    stream.on('error', (error) => problems.push(`stream: ${error}`))
    const onEnd = ({ 'grpc-status': status, 'grpc-message': text }: IncomingHttpHeaders) => {
      // A machine that starves the service or its database ends streams; subscribers come back.
      if (status !== '14') problems.push(`stream: ${status} ${text}`)
      unavailable++
      if (isSubscribed) subscribed--
      setTimeout(() => {
        if (!session.closed && !session.destroyed) open()
      }, 100)
    }
    stream.on('trailers', onEnd)
    // A call that is refused at once has its status in the headers.
    stream.on('response', (headers) => {
      if ('grpc-status' in headers) onEnd(headers)
    })
    let isSubscribed = false
    if (reads) {
      stream.on('data', (chunk: Buffer) => {
        bytes += chunk.length
        // The first item is a checkpoint.
        if (!isSubscribed) subscribed++
        isSubscribed = true
      })
    }
    stream.end(message)
  }
  for (let i = 0; i < count; i++) open()
  return {
    session,
    received: () => bytes,
    unavailable: () => unavailable,
    subscribed: () => subscribed,
    problems,
  }
}

test('1,000 subscribers, 900 of which never read: memory stays flat and all streams are released', async () => {
  const readers = openStreams(READERS, true)
  const stalled = openStreams(STALLED, false)
  const waiting = (count: number) =>
    waitFor(async () => expect(await metric('inflow_event_subscribers_waiting')).toBe(count))
  await waiting(READERS + STALLED)
  const publish = async () => {
    // What is published before a stream is open again does not reach it.
    await waitFor(() => expect(readers.subscribed()).toBe(READERS))
    const before = readers.received()
    const endedBefore = readers.unavailable()
    const [id] = await writeEvents(db.database.durablePool, EVENTS)
    expect(id).toBeDefined()
    await sequence(db.database.durablePool)
    // Wait until all readers have received the events of this round.
    await waitFor(() => {
      expect(readers.problems.slice(0, 3)).toEqual([])
      // A stream that was opened again gets the events from then on.
      const whole = READERS - (readers.unavailable() - endedBefore)
      expect(readers.received() - before).toBeGreaterThanOrEqual(whole * EVENTS * 100)
    })
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
})
