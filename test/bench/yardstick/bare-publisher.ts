import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect, headers } from '@nats-io/transport-node'
import { WINDOW_MAX } from '../../../src/relay/relay.ts'
import { childProcessMain } from '../child-process-main.ts'

/**
 * A program that publishes messages like the relay's, with its window: as many bytes, the same headers, each
 * expecting the one before it. It reads and encodes nothing.
 */
export interface BarePublisherOptions {
  /** `host:port` of the NATS server. */
  readonly server: string
  /** As many bytes as an event has. */
  readonly bytes: number
}

/** How many messages to publish. */
export interface BarePublisherCommand {
  readonly count: number
}

const STREAM = 'BARE'
/** As long as that of an event. */
const CURSOR = 'djIuMS4xMDAwMDAuMDAwMDAx'
const SUBJECT = 'bare.live.biz_bench.PAYMENT_NOTIFICATION'

childProcessMain<BarePublisherOptions, undefined, BarePublisherCommand, { perSecond: number }>(
  async ({ server, bytes }) => {
    const connection = await connect({ servers: server, noAsyncTraces: true })
    const manager = await jetstreamManager(connection)
    await manager.streams.add({ name: STREAM, subjects: ['bare.>'] })
    const client = jetstream(connection)
    const body = new Uint8Array(bytes)
    let ids = 0
    return {
      ready: undefined,
      async run({ count }) {
        const startedMs = performance.now()
        let left = count
        const publish = async (): Promise<void> => {
          while (left > 0) {
            left -= 1
            ids += 1
            const header = headers()
            header.set('Content-Type', 'application/protobuf; proto=inflow.event.v1.Event')
            header.set('Inflow-Position', `${ids}`)
            header.set('Inflow-Epoch', '1')
            header.set('Inflow-Cursor', CURSOR)
            await client.publish(SUBJECT, body, {
              msgID: `evt_01${String(ids).padStart(24, '0')}`,
              headers: header,
              expect: { lastSequence: ids - 1, streamName: STREAM },
            })
          }
        }
        await Promise.all(Array.from({ length: WINDOW_MAX }, publish))
        return { perSecond: (count / (performance.now() - startedMs)) * 1_000 }
      },
    }
  },
)
