import type { Socket } from 'node:net'
import pg from 'pg'
import { backoffMs } from '../core/backoff.ts'
import { isDeadline } from './is-retryable.ts'

declare module 'pg' {
  interface QueryConfig {
    /** Milliseconds until the query rejects and its connection is closed. */
    query_timeout?: number
  }
}

/** Deadlines of queries, in milliseconds. A server that is gone without a word answers none of them. */
export const DEADLINES = {
  /** Longer than the statement time-out, so that a server that answers states its own reason. */
  any: 35_000,
  /** Of a hot statement. */
  hot: 5_000,
  /** Of a transaction that sets its own statement time-out: verification, re-encryption, migrations. */
  long: 3_600_000,
} as const

const BACKOFF = { minMs: 100, maxMs: 1_000 }

/**
 * Without its synchronous standby, each commit keeps its connection at the server, although we
 * have closed it. From this part of `max_connections` on we open no further one.
 */
const STANDBY_WAITS_MAX = 0.25

const COUNT_STANDBY_WAITS = `select
    count(*) filter (where wait_event = 'SyncRep')::int as waiting,
    current_setting('max_connections')::int as max
  from pg_stat_activity where usename = current_user`

type Callback = (error: Error | null, client?: unknown) => void

/** The parts of pg's client that its types leave out. */
interface Internals {
  readonly connection: { readonly stream: Socket }
  readonly connectionParameters: { query_timeout: number }
}

/**
 * Creates the class of a pool's connections. It closes a connection that fails to open, or whose
 * query misses its deadline. After a failure it opens one at a time, with backoff; the others wait for
 * its result.
 *
 * @param preparedStatements false: statements have no names at the server
 */
export function createClientClass(preparedStatements = true): typeof pg.Client {
  const opening = { failures: 0, retryAtMs: 0 }
  /** While it tries to connect after a failure, the others wait for its result. */
  let probe: unknown
  let waiting: { open(): void; done(error: Error): void }[] = []
  let missedDeadline = false

  const failed = (startedMs: number): void => {
    // Of attempts that fail together, one counts.
    if (opening.failures > 0 && startedMs < opening.retryAtMs) return
    opening.failures += 1
    opening.retryAtMs = performance.now() + backoffMs(opening.failures, BACKOFF, Math.random)
  }

  class PooledClient extends pg.Client {
    /** Pools pass a callback. */
    override connect(given?: unknown): never {
      const callback = given as Callback
      let startedMs = performance.now()
      const done = (error: Error | null): void => {
        if (error) internalsOf(this).connection.stream.destroy()
        callback(error, this)
      }
      const opened = (error: Error | null): void => {
        if (error) failed(startedMs)
        else opening.failures = 0
        if (probe === this) {
          probe = undefined
          const others = waiting
          waiting = []
          for (const other of others) error ? other.done(error) : other.open()
        }
        done(error)
      }
      const open = (): void => {
        startedMs = performance.now()
        // The pool has given this connection up.
        if (internalsOf(this).connection.stream.destroyed) opened(new Error('timeout expired'))
        else {
          super.connect((error: Error | null) => {
            if (error || !missedDeadline) opened(error)
            else this.#checkStandbyWaits(opened)
          })
        }
      }
      if (opening.failures === 0) open()
      else if (probe !== undefined) waiting.push({ open, done })
      else {
        probe = this
        setTimeout(open, Math.max(0, opening.retryAtMs - startedMs))
      }
      return undefined as never
    }

    #checkStandbyWaits(done: Callback): void {
      const text = COUNT_STANDBY_WAITS
      super.query<{ waiting: number; max: number }>(
        { text, query_timeout: DEADLINES.hot },
        (error: Error | null, result) => {
          if (error) return done(error)
          const { waiting = 0, max = 0 } = result.rows[0] ?? {}
          missedDeadline = waiting > 0
          if (waiting <= max * STANDBY_WAITS_MAX) return done(null)
          const text = `${waiting} of ${max} connections wait for a synchronous standby`
          done(Object.assign(new Error(text), { code: '53300' }))
        },
      )
    }

    override query(...args: unknown[]): never {
      if (!preparedStatements && isNamed(args[0])) args[0] = { ...args[0], name: undefined }
      this.#adjustDeadline(args[0])
      const last = args.at(-1)
      if (typeof last === 'function') args[args.length - 1] = this.#watch(last as Callback)
      const result = Reflect.apply(super.query, this, args)
      if (result instanceof Promise) result.catch(this.#watch(() => undefined))
      return result as never
    }

    /** A transaction with its own statement time-out has its own deadline too. */
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

    #deadlineMs: number | undefined

    #watch(callback: Callback): Callback {
      return (error, result) => {
        if (isDeadline(error)) {
          missedDeadline = true
          // The query is still active, so this drops the connection.
          this.end().catch(() => undefined)
        }
        callback(error, result)
      }
    }
  }
  return PooledClient as unknown as typeof pg.Client
}

function isNamed(query: unknown): query is { readonly name: string } {
  return typeof query === 'object' && query !== null && 'name' in query
}

function internalsOf(client: pg.Client): Internals {
  return client as unknown as Internals
}
