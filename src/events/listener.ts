import { setTimeout as wait } from 'node:timers/promises'
import pg from 'pg'
import type { Logger } from 'pino'
import { createLoop, type Loop } from '../core/loop.ts'

/** How often a silent connection is asked whether it lives, and how long it has to answer. */
const HEARTBEAT_MS = 10_000
const ANSWER_MS = 5_000

/** How soon a connection is replaced that stood for a while. */
const AGAIN_MS = 100

/** The longest wait between attempts to connect. */
const RETRY_MAX_MS = 5_000

interface Options {
  readonly url: string
  readonly log: Logger
  /** The log has grown, or it may have while nobody listened. */
  readonly heard: () => void
}

/**
 * LISTENs on a connection of its own, and connects again when that dies. A notification that is
 * lost all the same costs a second and nothing else: everybody polls too.
 */
export function createListener({ url, log, heard }: Options): Loop {
  /** Rejects when the connection ends. */
  const listen = async (signal: AbortSignal): Promise<void> => {
    const client = new pg.Client({
      connectionString: url,
      application_name: 'inflow-listener',
      connectionTimeoutMillis: ANSWER_MS,
      query_timeout: ANSWER_MS,
      keepAlive: true,
    })
    const ended = new Promise<never>((_resolve, reject) => {
      client.on('error', reject)
      client.on('end', () => reject(new Error('the connection ended')))
      signal.addEventListener('abort', () => reject(new Error('stopping')), { once: true })
    })
    ended.catch(() => undefined)
    try {
      await client.connect()
      client.on('notification', heard)
      await client.query('listen inflow_event_log')
      heard()
      for (;;) {
        await Promise.race([ended, wait(HEARTBEAT_MS, undefined, { signal })])
        await client.query('select 1')
      }
    } finally {
      void client.end().catch(() => undefined)
    }
  }
  return createLoop({
    name: 'listening for events',
    log,
    everyMs: RETRY_MAX_MS,
    async turn(signal) {
      const startedMs = performance.now()
      try {
        await listen(signal)
      } catch (error) {
        // A connection that stood for a while was a good one: its end is no failure to connect.
        if (performance.now() - startedMs <= HEARTBEAT_MS) throw error
        if (!signal.aborted) log.warn({ err: error }, 'listening for events was interrupted')
      }
      return AGAIN_MS
    },
  })
}
