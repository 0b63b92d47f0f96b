import pg from 'pg'
import pino from 'pino'
import { openJetStreamSink } from '../../../src/relay/jetstream-sink.ts'
import { createRelay } from '../../../src/relay/relay.ts'
import { childProcessMain } from '../child-process-main.ts'

/** The relay alone, in a process of its own. */
export interface RelayLoadOptions {
  readonly databaseUrl: string
  /** `host:port` of the NATS server. */
  readonly server: string
}

/** Publishes until the position. */
export interface RelayLoadCommand {
  readonly upTo: number
}

const PROBE_MS = 5

childProcessMain<RelayLoadOptions, undefined, RelayLoadCommand, { perSecond: number }>(
  async ({ databaseUrl, server }) => {
    const pool = new pg.Pool({ connectionString: databaseUrl, max: 4 })
    const nats = {
      ...{ servers: [server], tls: false, user: undefined, password: undefined, token: undefined },
      ...{ credentialsFile: undefined, caFile: undefined },
    }
    return {
      ready: undefined,
      async run({ upTo }) {
        const relay = createRelay({
          pool,
          log: pino({ level: 'warn' }, pino.destination(2)),
          random: Math.random,
          format: 'protobuf',
          openSink: () => openJetStreamSink(nats, { replicas: 1, retentionMs: 86_400_000 }),
        })
        const published = () => Number(relay.publishedUpTo() ?? -1)
        const startedMs = performance.now()
        relay.start()
        while (published() < upTo) await new Promise((resolve) => setTimeout(resolve, PROBE_MS))
        const seconds = (performance.now() - startedMs) / 1_000
        const perSecond = relay.published() / seconds
        await relay.stop()
        return { perSecond }
      },
    }
  },
)
