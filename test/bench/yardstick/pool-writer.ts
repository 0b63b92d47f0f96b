import pg from 'pg'
import { newId } from '../../../src/core/ids.ts'
import { childProcessMain } from '../child-process-main.ts'
import { type Caller, type LoadCommand, type LoadResult, runCallers } from '../load/run-callers.ts'
import { ACCOUNTS, accountNumberOf } from '../seed.ts'
import { PAYMENT_SQL } from './payment-sql.ts'

/** Writes payments with one statement each, from a pool. */
export interface PoolWriterOptions {
  readonly databaseUrl: string
  readonly connections: number
  readonly inFlight: number
  /** Size of an event. */
  readonly payloadBytes: number
}

childProcessMain<PoolWriterOptions, undefined, LoadCommand, LoadResult>(async (options) => {
  const pool = new pg.Pool({ connectionString: options.databaseUrl, max: options.connections })
  const payload = Buffer.alloc(options.payloadBytes, 'event ')
  const caller: Caller = (done) => {
    write(pool, payload).then(
      (recorded) => done(recorded ? undefined : 'not recorded'),
      (error: unknown) => done(String(error)),
    )
  }
  const callers = new Array<Caller>(options.inFlight).fill(caller)
  return { ready: undefined, run: ({ seconds }) => runCallers(callers, seconds) }
})

async function write(pool: pg.Pool, payload: Buffer): Promise<boolean> {
  const nowMs = Date.now()
  const now = new Date(nowMs)
  const second = now.toISOString().replaceAll(/\D/g, '').slice(2, 14)
  const result = await pool.query({
    name: 'payment',
    text: PAYMENT_SQL,
    values: [
      accountNumberOf(1 + Math.floor(Math.random() * ACCOUNTS)),
      '9PSB',
      newId('txn', nowMs),
      `000013${second}${String(Math.floor(Math.random() * 1e12)).padStart(12, '0')}`,
      1 + Math.floor(Math.random() * 10_000_000),
      now,
      'Chinedu Okafor',
      '0123456789',
      '000013',
      'GTBank Plc',
      'Transfer for order 123456',
      newId('evt', nowMs),
      payload,
    ],
  })
  return result.rows.length === 1
}
