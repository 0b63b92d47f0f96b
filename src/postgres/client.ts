import type { Socket } from 'node:net'
import pg from 'pg'
import { backoffMs } from '../core/backoff.ts'
import { HOUR_MS } from '../core/durations.ts'
import { isDeadline } from './is-retryable.ts'
import { type OpenConnection, OpenConnections } from './open-connections.ts'

declare module 'pg' {
  interface QueryConfig {
    /** Milliseconds until the query rejects and its connection is closed. */
    query_timeout?: number
  }
}

/**
 * Deadlines of queries, in milliseconds. They detect a single lost connection. If the server does not respond on any
 * connection, the heartbeat ends all connections before their deadlines (`heartbeat.ts`).
 */
export const DEADLINES = {
  /** Longer than the statement time-out, so that a server that still responds states its own error. */
  any: 35_000,
  /** For a hot statement. */
  hot: 5_000,
  /** For a transaction that sets its own statement time-out: verification, re-encryption, migrations. */
  long: HOUR_MS,
} as const

const BACKOFF = { minMs: 100, maxMs: 1_000 }

/**
 * While the synchronous standby is lost, each waiting commit keeps its connection at the server, even after we have closed
 * it. At this fraction of `max_connections` we open no further connections.
 */
const STANDBY_WAITS_MAX = 0.25

const COUNT_STANDBY_WAITS = `select
    count(*) filter (where wait_event = 'SyncRep')::int as waiting,
    current_setting('max_connections')::int as max
  from pg_stat_activity where usename = current_user`

type Callback = (error: Error | null, client?: unknown) => void

/** The parts of pg's client that its types do not declare. */
interface Internals {
  readonly connection: pg.Connection & { readonly stream: Socket }
  readonly connectionParameters: { query_timeout: number }
  readonly processID: number
  /** `I`: idle, in no transaction. */
  getTransactionStatus(): string | null
}

/**
 * The shared state of opening connections: after a failure, connections open one at a time with backoff, and
 * the others wait for the result.
 */
class Opening {
  /** Whether a query has missed its deadline since the last connection opened. */
  missedDeadline = false
  #failures = 0
  #retryAtMs = 0
  #probe: object | undefined
  #waiting: Attempt[] = []

  begin(attempt: Attempt): void {
    if (this.#failures === 0) attempt.open()
    else if (this.#probe !== undefined) this.#waiting.push(attempt)
    else {
      this.#probe = attempt
      setTimeout(() => attempt.open(), Math.max(0, this.#retryAtMs - performance.now()))
    }
  }

  end(attempt: Attempt, error: Error | null, startedMs: number): void {
    if (error) this.#failed(startedMs)
    else this.#failures = 0
    if (this.#probe === attempt) {
      this.#probe = undefined
      const others = this.#waiting
      this.#waiting = []
      for (const other of others) error ? other.done(error) : other.open()
    }
    attempt.done(error)
  }

  #failed(startedMs: number): void {
    // Count attempts that fail at the same time as one failure.
    if (this.#failures > 0 && startedMs < this.#retryAtMs) return
    this.#failures += 1
    this.#retryAtMs = performance.now() + backoffMs(this.#failures, BACKOFF, Math.random)
  }
}

/** An attempt to open a connection. */
interface Attempt {
  open(): void
  done(error: Error | null): void
}

/**
 * Creates the class of a pool's connections. It closes a connection that fails to open, or whose
 * query misses its deadline.
 *
 * @param connections all connections to the same server; absent: only those of this pool
 * @param preparedStatements false: statements are not prepared by name
 */
export function createClientClass(
  connections = new OpenConnections(),
  preparedStatements = true,
): typeof pg.Client {
  const opening = new Opening()
  class OwnClient extends PooledClient {
    override readonly opening = opening
    override readonly connections = connections
    override readonly preparedStatements = preparedStatements
  }
  return OwnClient as unknown as typeof pg.Client
}

abstract class PooledClient extends pg.Client implements OpenConnection {
  protected abstract readonly opening: Opening
  protected abstract readonly connections: OpenConnections
  protected abstract readonly preparedStatements: boolean
  #deadlineMs: number | undefined
  #unanswered = 0
  /** When the current query was sent; if none is in progress, the last query. */
  #sentMs = 0
  answeredMs = 0
  openedMs = 0

  /** Supports a callback too, which pools pass. */
  override connect(given?: unknown): never {
    const callback = given as Callback
    const { opening } = this
    // A query in progress rejects by itself. Without a listener, the event would end the process before the pool listens.
    this.on('error', () => undefined)
    let startedMs = performance.now()
    const attempt: Attempt = {
      open: () => {
        startedMs = performance.now()
        // The pool has already given this connection up.
        if (internalsOf(this).connection.stream.destroyed) {
          opening.end(attempt, new Error('timeout expired'), startedMs)
          return
        }
        super.connect((error: Error | null) => {
          if (error || !opening.missedDeadline) opening.end(attempt, error, startedMs)
          else this.#checkStandbyWaits((found) => opening.end(attempt, found, startedMs))
        })
      },
      done: (error) => {
        if (error) internalsOf(this).connection.stream.destroy()
        else this.#enter(startedMs)
        callback(error, this)
      },
    }
    opening.begin(attempt)
    return undefined as never
  }

  override query(...args: unknown[]): never {
    if (!this.preparedStatements && isNamed(args[0])) args[0] = { ...args[0], name: undefined }
    this.#adjustDeadline(args[0])
    if (this.#unanswered === 0) this.#sentMs = performance.now()
    this.#unanswered += 1
    const last = args.at(-1)
    if (typeof last === 'function') args[args.length - 1] = this.#watch(last as Callback)
    const result = Reflect.apply(super.query, this, args)
    if (result instanceof Promise) {
      result.catch(this.#watch(() => undefined))
      if (isTransactionEdge(args[0])) result.catch(() => this.#giveBack())
    }
    return result as never
  }

  /** Counts the connection as open, until it ends. */
  #enter(startedMs: number): void {
    this.openedMs = performance.now()
    this.answeredMs = startedMs
    internalsOf(this).connection.on('readyForQuery', () => {
      this.answeredMs = this.#sentMs
      this.#unanswered -= 1
      // pg now sends the next query of its queue.
      if (this.#unanswered > 0) this.#sentMs = performance.now()
    })
    this.connections.add(this)
    this.once('end', () => this.connections.delete(this))
  }

  isIdle(): boolean {
    return this.#unanswered === 0 && internalsOf(this).getTransactionStatus() === 'I'
  }

  backend(): number {
    return internalsOf(this).processID
  }

  destroy(error: Error): void {
    internalsOf(this).connection.stream.destroy(error)
  }

  /**
   * Returns the connection to its pool, which closes it: Kysely 0.29 never releases a connection whose `begin` or `rollback`
   * failed. A later release by its user has no effect.
   */
  #giveBack(): void {
    const held = this as unknown as Pick<pg.PoolClient, 'release'>
    const { release } = held
    held.release = () => undefined
    release?.(true)
  }

  #checkStandbyWaits(done: (error: Error | null) => void): void {
    const text = COUNT_STANDBY_WAITS
    super.query<{ waiting: number; max: number }>(
      { text, query_timeout: DEADLINES.hot },
      (error: Error | null, result) => {
        if (error) return done(error)
        const { waiting = 0, max = 0 } = result.rows[0] ?? {}
        this.opening.missedDeadline = waiting > 0
        if (waiting <= max * STANDBY_WAITS_MAX) return done(null)
        const text = `${waiting} of ${max} connections wait for a synchronous standby`
        done(Object.assign(new Error(text), { code: '53300' }))
      },
    )
  }

  /** A transaction that sets its own statement time-out also gets a longer deadline. */
  #adjustDeadline(query: unknown): void {
    const text = typeof query === 'string' ? query : (query as { text?: unknown } | null)?.text
    if (typeof text !== 'string' || text.length > 50) return
    const { connectionParameters } = internalsOf(this)
    if (/^set local statement_timeout\b/.test(text)) {
      this.#deadlineMs ??= connectionParameters.query_timeout
      connectionParameters.query_timeout = DEADLINES.long
    } else if (this.#deadlineMs !== undefined && /^(commit|rollback)$/.test(text)) {
      connectionParameters.query_timeout = this.#deadlineMs
      this.#deadlineMs = undefined
    }
  }

  #watch(callback: Callback): Callback {
    return (error, result) => {
      if (isDeadline(error)) {
        this.opening.missedDeadline = true
        this.connections.missedDeadline(this, this.#sentMs)
        // pg drops the connection at once because a query is still active.
        this.end().catch(() => undefined)
      }
      callback(error, result)
    }
  }
}

/** Whether a statement begins a transaction, or rolls it back. */
function isTransactionEdge(query: unknown): boolean {
  const text = typeof query === 'string' ? query : (query as { text?: unknown } | null)?.text
  return typeof text === 'string' && /^(begin|start transaction|rollback$)/.test(text)
}

function isNamed(query: unknown): query is { readonly name: string } {
  return typeof query === 'object' && query !== null && 'name' in query
}

function internalsOf(client: pg.Client): Internals {
  return client as unknown as Internals
}
