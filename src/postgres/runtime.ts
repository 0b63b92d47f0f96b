import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import type { Clock } from '../core/clock.ts'
import type { Tracing } from '../core/tracing.ts'
import type { Database } from './orm.ts'

/** The dependencies that use cases share, passed as their first argument. `startService` creates it. */
export interface Runtime {
  /** The database. Its pools are named by what they guarantee. */
  readonly database: Database
  readonly clock: Clock
  /** The earlier of the database's time and this machine's, for what cannot be undone: it is done late, but never early. */
  readonly safeClock: Clock
  readonly log: Logger
  /** The registry of this process. */
  readonly metrics: Registry
  /** Undefined: nothing is traced. */
  readonly tracing: Tracing | undefined
  /** Called after a commit that added events. */
  readonly onCommit: () => void
}
