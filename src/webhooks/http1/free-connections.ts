import type { Connection } from './connection.ts'
import { NoAnswerError } from './no-answer-error.ts'

/** Of all origins together. */
const FREE_MAX = 500
const SWEEP_MS = 1_000

/** Connections that no request is under way on. Each is closed before its receiver would do so. */
export class FreeConnections {
  /** By origin. The one used last is used next, so that those not needed time out. */
  readonly #byOrigin = new Map<string, Connection[]>()
  #count = 0
  #sweeping = false

  put(connection: Connection): void {
    const others = this.#byOrigin.get(connection.origin)
    if (others === undefined) this.#byOrigin.set(connection.origin, [connection])
    else others.push(connection)
    this.#count += 1
    if (this.#count > FREE_MAX) this.#closeOldest()
    this.#sweepLater()
  }

  /** @param nowMs on the monotonic clock */
  take(origin: string, nowMs: number): Connection | undefined {
    const others = this.#byOrigin.get(origin)
    if (others === undefined) return undefined
    for (let connection = others.at(-1); connection; connection = others.at(-1)) {
      this.remove(connection)
      if (connection.freeUntilMs > nowMs) return connection
      expire(connection)
    }
    return undefined
  }

  /** It is not free any more. Nothing, if it was not. */
  remove(connection: Connection): void {
    const others = this.#byOrigin.get(connection.origin)
    const at = others?.lastIndexOf(connection) ?? -1
    if (others === undefined || at === -1) return
    this.#count -= 1
    if (at === others.length - 1) others.pop()
    else others.splice(at, 1)
    if (others.length === 0) this.#byOrigin.delete(connection.origin)
  }

  #closeOldest(): void {
    for (const [oldest] of this.#byOrigin.values()) {
      if (oldest === undefined) continue
      this.remove(oldest)
      expire(oldest)
      return
    }
  }

  #sweepLater(): void {
    if (this.#sweeping) return
    this.#sweeping = true
    setTimeout(() => this.#sweep(), SWEEP_MS).unref()
  }

  #sweep(): void {
    const nowMs = performance.now()
    for (const connections of [...this.#byOrigin.values()]) {
      for (const connection of [...connections]) {
        if (connection.freeUntilMs > nowMs) continue
        this.remove(connection)
        expire(connection)
      }
    }
    this.#sweeping = false
    if (this.#count > 0) this.#sweepLater()
  }
}

function expire(connection: Connection): void {
  connection.close(new NoAnswerError('the connection was free for too long'))
}
