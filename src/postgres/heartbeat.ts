import pg from 'pg'
import type { Logger } from 'pino'
import { withTimeout } from '../core/concurrency.ts'
import { createLoop, type Loop } from '../core/loop.ts'
import type { OpenConnections } from './open-connections.ts'

interface Options {
  /** The name of the loop in the log. */
  readonly name: string
  readonly url: string
  /** Start-up options of the session; absent behind a pooler that refuses them. */
  readonly options?: string | undefined
  readonly log: Logger
  /** The connections over the same network path, which are ended if the server is silent; absent: none. */
  readonly connections?: OpenConnections | undefined
  /** Called with each new connection. */
  readonly onConnect?: ((client: pg.Client) => Promise<unknown>) | undefined
}

/** The interval of heartbeats. */
const EVERY_MS = 1_000

/** The server is silent if a heartbeat has no response after this many ticks, which is 5 s. */
const TICKS = 10
const TICK_MS = 500

/**
 * Keeps its own connection to the server, sends a query on it every second, and reconnects after errors. If the server does
 * not respond at all, not even with a refusal, it ends all connections that have had no response either. So a query can
 * have a long deadline without waiting that long for a lost server.
 */
export function createHeartbeat(given: Options): Loop {
  const { name, url, options, log, connections, onConnect } = given
  let client: pg.Client | undefined
  let answeredMs = Number.NEGATIVE_INFINITY
  const drop = (): void => {
    if (client !== undefined) destroy(client)
    client = undefined
  }
  const connect = async (): Promise<void> => {
    const application = { application_name: `inflow ${name}` }
    const opened = new pg.Client({ ...application, connectionString: url, options })
    client = opened
    // After the loss of the connection, the next run begins at once and reconnects.
    opened.on('error', loop.wake).on('end', loop.wake)
    await opened.connect()
    await connections?.endAbandoned(opened)
    await onConnect?.(opened)
  }
  const loop = createLoop({
    name,
    log,
    everyMs: EVERY_MS,
    async turn(signal) {
      const sentMs = performance.now()
      const answer = client === undefined ? connect() : client.query('select 1')
      try {
        if (await isInTime(answer, signal)) {
          answeredMs = sentMs
          return undefined
        }
        const ended = connections?.missedHeartbeat(sentMs, answeredMs) ?? 0
        if (ended > 0)
          log.warn({ ended }, 'the database does not respond: its connections are ended')
        throw new Error('the database does not respond')
      } catch (error) {
        drop()
        throw error
      }
    },
  })
  return {
    ...loop,
    async stop() {
      await loop.stop()
      drop()
    },
  }
}

/** Counts ticks instead of time, because a process that was suspended has not waited for the server. */
async function isInTime(answer: Promise<unknown>, stopping: AbortSignal): Promise<boolean> {
  answer.catch(() => undefined)
  for (let tick = 0; tick < TICKS && !stopping.aborted; tick++) {
    if (await withTimeout(answer, TICK_MS)) return true
  }
  return stopping.aborted
}

/** Closes a connection at once; `end` would wait for the server. */
function destroy(client: pg.Client): void {
  const { connection } = client as unknown as { readonly connection: pg.Connection }
  connection.stream.destroy()
}
