import type { Client } from 'pg'

/** An open connection to the database. */
export interface OpenConnection {
  /** When the connection opened, in milliseconds of `performance.now()`. */
  readonly openedMs: number
  /** When the last query that the server has responded to was sent. */
  readonly answeredMs: number
  /** Whether no query is in progress, and no transaction is open. */
  isIdle(): boolean
  /** The id of the backend process; behind a pooler, some other number. */
  backend(): number
  /** Closes the connection without a message to the server. A query in progress rejects with the error. */
  destroy(error: Error): void
}

/** The most backends that are remembered: enough for several failures of a thousand connections. */
const ABANDONED_MAX = 10_000

/**
 * The open connections of all pools to one server. A server that vanishes closes no connection, and neither does a firewall
 * that forgets them, so a query on each connection would wait for its deadline. The failure of one connection is therefore
 * applied to the others.
 */
export class OpenConnections {
  readonly #open = new Set<OpenConnection>()
  /** Backends whose connection was closed here, and that may not have noticed. */
  #abandoned: { readonly backend: number; readonly openedMs: number }[] = []

  /** The start time of the server, which identifies it. */
  #server: string | undefined

  add(connection: OpenConnection): void {
    this.#open.add(connection)
  }

  delete(connection: OpenConnection): void {
    this.#open.delete(connection)
  }

  /**
   * Called before a connection is closed because its query, sent at `sentMs`, had no response in time. Also ends the idle
   * connections that have had no response since then. Connections in use may only be slow.
   */
  missedDeadline(connection: OpenConnection, sentMs: number): void {
    this.#abandon([connection])
    this.#end(sentMs, (each) => each.isIdle())
  }

  /**
   * Called if the heartbeat that was sent at `sentMs` had no response. Ends all connections without a response to anything
   * sent since then, including those in a transaction or with a query that may take an hour. Ends none if the server still
   * responds on a connection that was already open at the last successful heartbeat: then only the connection of the
   * heartbeat is lost. Newer connections are no proof, because they may lead to another server.
   *
   * @param answeredMs when the last successful heartbeat was sent
   * @returns how many connections were ended
   */
  missedHeartbeat(sentMs: number, answeredMs: number): number {
    const answers = [...this.#open].some(
      (each) => each.openedMs < answeredMs && each.answeredMs >= sentMs,
    )
    return answers ? 0 : this.#end(sentMs, () => true)
  }

  /**
   * Called when the server can be reached again. If it is the same server as before, terminates the backends of connections
   * that were closed here: they would hold locks for a minute and connection slots for hours. Active backends end by
   * themselves: terminating a commit that waits for a synchronous standby would make it visible too early.
   */
  async endAbandoned(on: Pick<Client, 'query'>): Promise<void> {
    const abandoned = this.#abandoned
    this.#abandoned = []
    const nowMs = performance.now()
    // The system may have reused a process id: only backends that started before the connection opened are terminated.
    const { rows } = await on.query<{ server: string }>(
      `with server as (select extract(epoch from pg_postmaster_start_time())::text as server)
      select server, (select count(pg_terminate_backend(a.pid))
          from unnest($1::int8[], $2::float8[]) as given(pid, ms) join pg_stat_activity a on a.pid = given.pid
          where server = $3 and a.usename = current_user and a.state <> 'active'
            and a.backend_start < clock_timestamp() - given.ms * interval '1 ms') as ended
        from server`,
      [
        abandoned.map(({ backend }) => backend),
        abandoned.map(({ openedMs }) => nowMs - openedMs),
        this.#server,
      ],
    )
    this.#server = rows[0]?.server
  }

  #end(sentMs: number, matches: (connection: OpenConnection) => boolean): number {
    const silent = [...this.#open].filter((each) => each.answeredMs < sentMs && matches(each))
    this.#abandon(silent)
    for (const each of silent) {
      each.destroy(new Error('Connection terminated: the database does not respond'))
    }
    return silent.length
  }

  #abandon(connections: readonly OpenConnection[]): void {
    for (const each of connections) {
      this.#open.delete(each)
      this.#abandoned.push({ backend: each.backend(), openedMs: each.openedMs })
    }
    this.#abandoned = this.#abandoned.slice(-ABANDONED_MAX)
  }
}
