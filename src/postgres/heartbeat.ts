import pg from 'pg'
import type { Logger } from 'pino'
import { createLoop, type Loop } from '../core/loop.ts'
import { withTimeout } from '../core/with-timeout.ts'
import type { OpenConnections } from './open-connections.ts'

interface Options {
  /** The name of the loop in the log. */
  readonly name: string
  readonly url: string
  /** Start-up options of its session; absent: a pooler refuses them. */
  readonly options?: string | undefined
  readonly log: Logger
  /** The connections that go the same way, which end with it; absent: none. */
  readonly connections?: OpenConnections | undefined
  /** Called with each new connection. */
  readonly onConnect?: ((client: pg.Client) => Promise<unknown>) | undefined
}

/** How often the server is asked. */
const EVERY_MS = 1_000

/** The server is silent if it leaves so many ticks without an answer: 5 s. */
const TICKS = 10
const TICK_MS = 500

/**
 * Keeps a connection of its own to the server, asks it every second whether it is there, and connects again when it
 * is not. If there is no answer at all, not even a refusal, it ends all connections that have none either. So a
 * query may take as long as its deadline lets it, and yet none waits for a server that is gone.
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
    // What comes after the loss of the connection is found by the next turn, which begins at once.
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

/** Counts ticks rather than time: a process that stood still has not waited for the server. */
async function isInTime(answer: Promise<unknown>, stopping: AbortSignal): Promise<boolean> {
  answer.catch(() => undefined)
  for (let tick = 0; tick < TICKS && !stopping.aborted; tick++) {
    if (await withTimeout(answer, TICK_MS)) return true
  }
  return stopping.aborted
}

/** Closes a connection at once: `end` waits for the server. */
function destroy(client: pg.Client): void {
  const { connection } = client as unknown as { readonly connection: pg.Connection }
  connection.stream.destroy()
}
