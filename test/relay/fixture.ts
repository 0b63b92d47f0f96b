import { fromBinary } from '@bufbuild/protobuf'
import type { Pool } from 'pg'
import pino, { type Logger } from 'pino'
import { expect, onTestFinished } from 'vitest'
import { EventSchema } from '../../gen/inflow/event/v1/event_pb.ts'
import { DAY_MS } from '../../src/core/durations.ts'
import type { Tracing } from '../../src/core/tracing.ts'
import { readLogState } from '../../src/events/log-state.ts'
import { readLog } from '../../src/events/read-log.ts'
import type { EventSink } from '../../src/relay/event-sink.ts'
import { openJetStreamSink } from '../../src/relay/jetstream-sink.ts'
import type { RelayFormat } from '../../src/relay/message.ts'
import { createRelay, type Relay } from '../../src/relay/relay.ts'
import { type NatsServer, openReader, type StreamReader } from '../support/nats.ts'
import { createTestRuntime } from '../support/runtime.ts'
import { WAIT_LIMIT_MS } from '../support/wait-for.ts'

const READ_MAX = 10_000

/** How a relay of a test signs in. */
const signIn = (address: string) => ({
  servers: [address],
  tls: false,
  user: undefined,
  password: undefined,
  token: undefined,
  credentialsFile: undefined,
  caFile: undefined,
})

/** Connects to a server as a relay does. */
export const openSink = (server: Pick<NatsServer, 'address'>): Promise<EventSink> =>
  openJetStreamSink(signIn(server.address), { replicas: 1, retentionMs: 90 * DAY_MS })

/** Starts a relay in this process; the end of the test stops it. */
export function startRelay(
  pool: Pool,
  server: Pick<NatsServer, 'address'>,
  {
    format = 'protobuf' as RelayFormat,
    log = pino({ level: 'silent' }) as Logger,
    tracing = undefined as Tracing | undefined,
  } = {},
): Relay {
  const relay = createRelay(createTestRuntime({ durablePool: pool }, { log, tracing }), {
    random: Math.random,
    format,
    openSink: () => openSink(server),
  })
  relay.start()
  onTestFinished(() => relay.stop())
  return relay
}

/** Opens a reader; the end of the test closes it. */
export async function useReader(server: NatsServer): Promise<StreamReader> {
  const reader = await openReader(server)
  onTestFinished(() => reader.close())
  return reader
}

/** The ids of all events of the log, in order. */
export async function logIds(pool: Pool, after = 0n): Promise<string[]> {
  const ids: string[] = []
  for (;;) {
    const { entries } = await readLog(pool, after + BigInt(ids.length) + 1n, READ_MAX)
    if (entries.length === 0) return ids
    ids.push(...entries.map(({ eventId }) => eventId))
  }
}

/** Waits until the last message of a stream is the last event of the log. */
export async function untilPublished(
  pool: Pool,
  server: NatsServer,
  stream: string,
  timeout = WAIT_LIMIT_MS,
): Promise<void> {
  await expect
    .poll(
      async () => {
        const reader = await openReader(server)
        try {
          const { end } = await readLogState(pool)
          const last = await reader.last(stream)
          return `${last?.header.get('Inflow-Position')}` === `${end.position}`
        } finally {
          await reader.close()
        }
      },
      { timeout, interval: 100 },
    )
    .toBe(true)
}

/** Asserts that the messages of a stream are the events of the log after a position, one for one. */
export async function expectMirror(
  pool: Pool,
  reader: StreamReader,
  stream: string,
  after = 0n,
): Promise<void> {
  const messages = await reader.messages(stream)
  expect(messages.map(({ header }) => header('Nats-Msg-Id'))).toEqual(await logIds(pool, after))
  for (const { sequence, header, body } of messages) {
    const event = fromBinary(EventSchema, body)
    const position = after + BigInt(sequence)
    if (event.id !== header('Nats-Msg-Id') || event.position !== position) {
      throw new Error(`message ${sequence} has the event ${event.id} of position ${event.position}`)
    }
    if (header('Inflow-Position') !== `${position}`) throw new Error(`header of ${sequence}`)
  }
}
