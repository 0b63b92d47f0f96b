import type { Client } from 'pg'
import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import type { Config } from '../config/config.ts'
import type { Clock } from '../core/clock.ts'
import type { Loop } from '../core/loop.ts'
import { registerEventMetrics } from '../events/metrics.ts'
import { createRetention } from '../events/retention.ts'
import { createSequencer } from '../events/sequencer.ts'
import { Tail } from '../events/tail.ts'
import { DEADLINES } from '../postgres/client.ts'
import { createHeartbeat } from '../postgres/heartbeat.ts'
import type { Database } from '../postgres/orm.ts'
import { sessionOptions } from '../postgres/session.ts'
import type { Tracing } from '../tracing/tracing.ts'
import { dispatchedUpTo } from '../webhooks/deliveries/backlog.ts'

interface Options {
  readonly config: Config
  readonly database: Database
  readonly clock: Clock
  readonly log: Logger
  readonly metrics: Registry
  readonly tracing: Tracing | undefined
  /** Called when the event log has new events. */
  readonly wakeReaders: () => void
}

/** The event log of this process. */
export interface Events {
  readonly tail: Tail
  /** Sequences the events that a commit added. */
  onCommit(): void
  start(): void
  stop(): Promise<void>
}

/** Composes the tail, the sequencer, the heartbeats and the retention of events. */
export function composeEvents(options: Options): Events {
  const { config, database, clock, log, metrics, wakeReaders } = options
  const { pool } = database
  const tail = new Tail(database, log)
  const onAdvance = (): void => {
    tail.wake()
    wakeReaders()
  }
  const sequencer = createSequencer({
    pool: database.recordingPool,
    ...{ log, metrics, onAdvance, tracing: options.tracing },
  })
  const heartbeats = createHeartbeats(options, onAdvance)
  const retention = createRetention({
    pool,
    clock,
    log,
    retentionDays: config.eventRetentionDays,
    dispatchedUpTo: () => dispatchedUpTo(pool),
  })
  registerEventMetrics(metrics, pool, tail)
  return {
    tail,
    onCommit: sequencer.wake,
    start() {
      for (const each of [...heartbeats, sequencer, retention]) each.start()
    },
    async stop() {
      await Promise.all([tail, sequencer, retention, ...heartbeats].map((each) => each.stop()))
    },
  }
}

/** The heartbeat on the way that all connections go, and the listener, which may need a way of its own. */
function createHeartbeats({ config, database, log }: Options, onAdvance: () => void): Loop[] {
  const { transactionPooling } = config.pooler
  // Through a pooler that assigns connections by transaction, LISTEN needs the server itself.
  const listenUrl = config.databaseListenUrl ?? (transactionPooling ? undefined : database.url)
  const listen = async (client: Client): Promise<void> => {
    client.on('notification', onAdvance)
    await client.query('listen inflow_event_log')
    // The log may have grown unnoticed.
    onAdvance()
  }
  const isDirect = listenUrl === database.url
  const session = sessionOptions({ statement_timeout: `${DEADLINES.hot}` })
  const heartbeat = createHeartbeat({
    ...{ name: 'database heartbeat', url: database.url, log },
    options: transactionPooling ? undefined : session,
    ...{ connections: database.connections, onConnect: isDirect ? listen : undefined },
  })
  if (listenUrl === undefined || isDirect) return [heartbeat]
  const way = { name: 'event listener', url: listenUrl, options: session }
  return [heartbeat, createHeartbeat({ ...way, log, onConnect: listen })]
}
