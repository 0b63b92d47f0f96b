import pg from 'pg'
import { newId } from '../../../src/core/ids.ts'
import { asProgram } from '../as-program.ts'
import { type Lane, type LoadAnswer, type LoadCommand, runLanes } from '../load/lanes.ts'
import { ACCOUNTS, accountNumberOf } from '../seed.ts'
import { PAYMENT_SQL } from './payment-sql.ts'

/** Writes payments the usual way: one statement each, from a pool. */
export interface PoolWriterOptions {
  readonly databaseUrl: string
  readonly connections: number
  readonly inFlight: number
  /** Size of an event. */
  readonly payloadBytes: number
}

asProgram<PoolWriterOptions, undefined, LoadCommand, LoadAnswer>(async (options) => {
  const pool = new pg.Pool({ connectionString: options.databaseUrl, max: options.connections })
  const payload = Buffer.alloc(options.payloadBytes, 'event ')
  const lane: Lane = (done) => {
    write(pool, payload).then(
      (recorded) => done(recorded ? undefined : 'not recorded'),
      (error: unknown) => done(String(error)),
    )
  }
  const lanes = new Array<Lane>(options.inFlight).fill(lane)
  return { ready: undefined, run: ({ seconds }) => runLanes(lanes, seconds) }
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
