import pino from 'pino'
import { Registry } from 'prom-client'
import { systemClock } from '../../src/core/clock.ts'
import type { Database } from '../../src/postgres/orm.ts'
import type { Runtime } from '../../src/postgres/runtime.ts'

/**
 * A runtime that logs nothing, traces nothing and ignores commits, except for the given parts.
 *
 * @param database may contain only the parts that the test uses
 */
export function createTestRuntime(
  database: Partial<Database>,
  given: Partial<Runtime> = {},
): Runtime {
  return {
    database: database as Database,
    clock: systemClock,
    safeClock: given.clock ?? systemClock,
    log: pino({ level: process.env['TEST_LOG_LEVEL'] ?? 'silent' }),
    metrics: new Registry(),
    tracing: undefined,
    onCommit: () => undefined,
    ...given,
  }
}
