import type { Logger } from 'pino'
import type { Registry } from 'prom-client'
import type { Clock } from '../core/clock.ts'
import type { Tracing } from '../core/tracing.ts'
import type { Database } from './orm.ts'

/** What every use case of a service may need: its first argument. `startService` makes one. */
export interface Runtime {
  /** Its pools are named by what they promise. */
  readonly database: Database
  readonly clock: Clock
  readonly log: Logger
  /** The registry of this process. */
  readonly metrics: Registry
  /** Undefined: nothing is traced. */
  readonly tracing: Tracing | undefined
  /** Called after a commit that added events. */
  readonly onCommit: () => void
}
