import type { Client } from 'pg'

/** A connection that is open. */
export interface OpenConnection {
  /** In milliseconds of `performance.now()`. */
  openedMs(): number
  /** When what it answered last was sent to the server. */
  answeredMs(): number
  /** Whether it waits for no answer, and is in no transaction. */
  isIdle(): boolean
  /** The id of its process at the server; behind a pooler, another number. */
  backend(): number
  /** Closes it without a word to the server. Its query rejects with the error. */
  destroy(error: Error): void
}

/** The most processes of the server that are remembered: a thousand connections in each of several silences. */
const ABANDONED_MAX = 10_000

/**
 * The open connections to one server, of all pools. A server that vanishes closes none of them, and neither
 * does a firewall that forgets them: a query on each would wait for its deadline. What one of them shows
 * is therefore applied to the others.
 */
export class OpenConnections {
  readonly #open = new Set<OpenConnection>()
  /** Processes of the server whose connection is closed here, perhaps without their knowledge. */
  #abandoned: { readonly backend: number; readonly openedMs: number }[] = []

  /** When the server began: another server has another time. */
  #server: string | undefined

  add(connection: OpenConnection): void {
    this.#open.add(connection)
  }

  delete(connection: OpenConnection): void {
    this.#open.delete(connection)
  }

  /**
   * A connection that is about to be closed has left a query sent then without an answer. The idle ones that
   * have answered nothing since are ended with it. Those in use may only be slow.
   */
  missedDeadline(connection: OpenConnection, sentMs: number): void {
    this.#abandon([connection])
    this.#end(sentMs, (each) => each.isIdle())
  }

  /**
   * The server has left a heartbeat sent then without an answer: ends all connections that have answered
   * nothing sent since, also those in a transaction or with a query that may take an hour. None is ended if the
   * server still answers on one that was open when it answered a heartbeat: then only that is lost. Newer ones may
   * lead to another server.
   *
   * @param answeredMs when the last heartbeat that was answered was sent
   * @returns how many were ended
   */
  missedHeartbeat(sentMs: number, answeredMs: number): number {
    const answers = [...this.#open].some(
      (each) => each.openedMs() < answeredMs && each.answeredMs() >= sentMs,
    )
    return answers ? 0 : this.#end(sentMs, () => true)
  }

  /**
   * Call it when the server can be reached again. If it is the same as before, it ends what the server has kept of
   * connections that are closed here, which would hold locks for a minute and connections for hours. A process
   * that is active ends by itself: a commit that waits for a synchronous standby must not become
   * visible before.
   */
  async endAbandoned(on: Pick<Client, 'query'>): Promise<void> {
    const abandoned = this.#abandoned
    this.#abandoned = []
    const nowMs = performance.now()
    // A number may have been used again, by a process that began after the connection was open.
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
    const silent = [...this.#open].filter((each) => each.answeredMs() < sentMs && matches(each))
    this.#abandon(silent)
    for (const each of silent) {
      each.destroy(new Error('Connection terminated: the database does not respond'))
    }
    return silent.length
  }

  #abandon(connections: readonly OpenConnection[]): void {
    for (const each of connections) {
      this.#open.delete(each)
      this.#abandoned.push({ backend: each.backend(), openedMs: each.openedMs() })
    }
    this.#abandoned = this.#abandoned.slice(-ABANDONED_MAX)
  }
}
