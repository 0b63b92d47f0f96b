import { setTimeout as wait } from 'node:timers/promises'
import pg from 'pg'
import type { Logger } from 'pino'
import { createLoop, type Loop } from '../core/loop.ts'
import { sessionOptions } from '../postgres/session.ts'

/** How often the connection is checked, and the timeout of a check. */
const HEARTBEAT_MS = 10_000
const QUERY_TIMEOUT_MS = 5_000

/** The delay before reconnecting after a connection that had worked. */
const RECONNECT_MS = 100

/** The longest wait between attempts to connect. */
const RETRY_MAX_MS = 5_000

interface Options {
  readonly url: string
  readonly log: Logger
  /** Called when the log has grown, and after connecting, when it may have grown unnoticed. */
  readonly onNotify: () => void
}

/**
 * LISTENs on a dedicated connection and reconnects when it fails. A lost notification delays events
 * by a second at most, since readers also poll.
 */
export function createListener({ url, log, onNotify }: Options): Loop {
  /** Rejects when the connection ends. */
  const listen = async (signal: AbortSignal): Promise<void> => {
    const client = new pg.Client({
      connectionString: url,
      application_name: 'inflow-listener',
      options: sessionOptions({ statement_timeout: `${QUERY_TIMEOUT_MS}` }),
      connectionTimeoutMillis: QUERY_TIMEOUT_MS,
      query_timeout: QUERY_TIMEOUT_MS,
      keepAlive: true,
      keepAliveInitialDelayMillis: HEARTBEAT_MS,
    })
    const ended = new Promise<never>((_resolve, reject) => {
      client.on('error', reject)
      client.on('end', () => reject(new Error('the connection ended')))
      signal.addEventListener('abort', () => reject(new Error('stopping')), { once: true })
    })
    ended.catch(() => undefined)
    try {
      await client.connect()
      client.on('notification', onNotify)
      await client.query('listen inflow_event_log')
      onNotify()
      for (;;) {
        await Promise.race([ended, wait(HEARTBEAT_MS, undefined, { signal })])
        await client.query('select 1')
      }
    } finally {
      void client.end().catch(() => undefined)
    }
  }
  return createLoop({
    name: 'event listener',
    log,
    everyMs: RETRY_MAX_MS,
    async turn(signal) {
      const startedMs = performance.now()
      try {
        await listen(signal)
      } catch (error) {
        // The connection had worked: its end is not a failure to connect.
        if (performance.now() - startedMs <= HEARTBEAT_MS) throw error
        if (!signal.aborted)
          log.warn({ err: error }, 'the event listener lost its connection; reconnecting')
      }
      return RECONNECT_MS
    },
  })
}
