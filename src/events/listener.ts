import { setTimeout as wait } from 'node:timers/promises'
import pg from 'pg'
import type { Logger } from 'pino'

/** How often a silent connection is asked whether it lives, and how long it has to answer. */
const HEARTBEAT_MS = 10_000
const ANSWER_MS = 5_000

/** Between attempts to connect: the first, and the longest. */
const RETRY_MIN_MS = 100
const RETRY_MAX_MS = 5_000

/** Hears of other instances' work on the log. */
export interface Listener {
  start(): void
  stop(): Promise<void>
}

interface Options {
  readonly url: string
  readonly log: Logger
  /** The log has grown, or it may have while nobody listened. */
  readonly heard: () => void
  readonly random: () => number
}

/**
 * LISTENs on a connection of its own, and connects again when that dies. A notification that is
 * lost all the same costs a second and nothing else: everybody polls too.
 */
export function createListener({ url, log, heard, random }: Options): Listener {
  const stopping = new AbortController()
  const { signal } = stopping
  let running: Promise<void> = Promise.resolve()

  const listen = async (): Promise<void> => {
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
  const run = async (): Promise<void> => {
    let retryMs = RETRY_MIN_MS
    while (!signal.aborted) {
      const startedMs = performance.now()
      await listen().catch((error: unknown) => {
        if (!signal.aborted) log.warn({ err: error }, 'listening for events failed; trying again')
      })
      // A connection that stood for a while was a good one.
      if (performance.now() - startedMs > HEARTBEAT_MS) retryMs = RETRY_MIN_MS
      await wait(retryMs * (0.5 + random()), undefined, { signal }).catch(() => undefined)
      retryMs = Math.min(retryMs * 2, RETRY_MAX_MS)
    }
  }
  return {
    start() {
      running = run()
    },
    async stop() {
      stopping.abort()
      await running
    },
  }
}
