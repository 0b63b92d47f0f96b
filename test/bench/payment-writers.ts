import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import { newId } from '../../src/core/ids.ts'
import { findPostgres } from '../support/postgres-server.ts'
import type { Bench } from './bench.ts'
import { startChild } from './child.ts'
import { newSessionId } from './grpc-load.ts'
import { type Caller, runCallers, underLoad } from './load.ts'
import type { Contender } from './rounds.ts'
import { ACCOUNTS, accountNumberOf } from './seed.ts'

/** The measured size of a payment's event. */
const PAYLOAD_BYTES = 423

/** All writes of a payment: looks up the account, and inserts session, transaction, ledger posting and event. */
const PAYMENT_SQL = `with found as (
    select id, business_id, live from account
    where account_number = $1 and bank = $2 and status = 'ACTIVE'
  ), new_session as (
    insert into payment_session (session_id, bank, live, transaction_id)
    select $4::text, $2, live, $3::text from found
    on conflict (session_id, bank, live) do nothing
    returning transaction_id
  ), recorded as (
    insert into transaction (id, business_id, live, account_id, bank, session_id, amount_minor, status,
      paid_at, created_at, payer_name, payer_account_number, payer_bank_code, payer_bank_name,
      narration, recorded_by)
    select $3::text, business_id, live, id, $2, $4::text, $5::bigint, 'SUCCESS', $6::timestamptz,
      $6::timestamptz, $7::text, $8::text, $9::text, $10::text, $11::text, 'notification'
    from found cross join new_session
    returning id, business_id, live, bank, amount_minor, created_at
  ), posted as (
    insert into ledger_posting
      (transaction_id, kind, business_id, live, debit_account, credit_account, amount_minor, created_at)
    select id, 'payment', business_id, live, 'clearing:' || bank, 'pending', amount_minor, created_at
    from recorded
  ), published as (
    insert into outbox
      (event_id, business_id, live, kind, occurred_at, payload, subject_id, pending_minor)
    select $12::text, business_id, live, 'PAYMENT_NOTIFICATION', created_at, $13::bytea, id, amount_minor
    from recorded
  )
  select id from recorded`

/** One statement a payment, from a pool. */
export async function poolWriter(bench: Bench, databaseUrl: string): Promise<Contender> {
  const load = await startChild(bench, import.meta.filename, poolLoad, databaseUrl)
  return underLoad(bench, 'pg pool of 16', load)
}

export async function poolLoad(databaseUrl: string) {
  const pool = new pg.Pool({ connectionString: databaseUrl, max: 16 })
  const payload = Buffer.alloc(PAYLOAD_BYTES, 'event ')
  const write: Caller = (done) => {
    const nowMs = Date.now()
    const values = [
      accountNumberOf(1 + Math.floor(Math.random() * ACCOUNTS)),
      '9PSB',
      newId('txn', nowMs),
      newSessionId(nowMs),
      1 + Math.floor(Math.random() * 10_000_000),
      new Date(nowMs),
      'Chinedu Okafor',
      '0123456789',
      '000013',
      'GTBank Plc',
      'Transfer for order 123456',
      newId('evt', nowMs),
      payload,
    ]
    pool.query({ name: 'payment', text: PAYMENT_SQL, values }).then(
      ({ rows }) => done(rows.length === 1 ? undefined : 'not recorded'),
      (error: unknown) => done(String(error)),
    )
  }
  const callers = Array<Caller>(64).fill(write)
  return { ready: undefined, run: (seconds: number) => runCallers(callers, seconds) }
}

const MILLISECOND = "to_char(now(), 'YYMMDDHH24MISSMS')"
const UNIQUE = "lpad(:unique::text, 12, '0')"

/** The parameters for pgbench. Its variables can only be numbers, so the statement builds the texts. */
const PGBENCH_VALUES = [
  "lpad(:account::text, 10, '0')",
  "'9PSB'",
  `'txn_' || ${MILLISECOND} || ${UNIQUE}`,
  `'000013' || to_char(now(), 'YYMMDDHH24MISS') || ${UNIQUE}`,
  ':amount',
  "date_trunc('milliseconds', now())",
  "'Chinedu Okafor'",
  "'0123456789'",
  "'000013'",
  "'GTBank Plc'",
  "'Transfer for order 123456'",
  `'evt_' || ${MILLISECOND} || ${UNIQUE}`,
  `'\\x${'65'.repeat(PAYLOAD_BYTES)}'`,
]

const CLIENTS = 32
/** On a busy machine it has not even connected after one. */
const SECONDS_MIN = 3
const GRACE_MS = 30_000

/** PostgreSQL's own load generator, written in C, with prepared statements; undefined if it is not installed. */
export async function pgbench(bench: Bench, databaseUrl: string): Promise<Contender | undefined> {
  const program = join(findPostgres() ?? '', 'pgbench')
  if (!existsSync(program)) {
    bench.log('  pgbench is not installed: its line is left out')
    return undefined
  }
  const script = join(bench.folder, 'pgbench.sql')
  const sql = PAYMENT_SQL.replaceAll(/\$(\d+)/g, (_, at) => `(${PGBENCH_VALUES[at - 1]})`)
  const lines = [
    `\\set account random(1, ${ACCOUNTS})`,
    '\\set unique random(0, 999999999999)',
    '\\set amount random(1, 10000000)',
    `${sql.replaceAll(/\s+/g, ' ')};`,
  ]
  await writeFile(script, lines.join('\n'))
  const { hostname, port, username, password, pathname } = new URL(databaseUrl)
  const settings = ['-n', '-M', 'prepared', '-c', `${CLIENTS}`, '-j', '2', '-f', script]
  const where = ['-h', hostname, '-p', port, '-U', username, pathname.slice(1)]
  return {
    name: `pgbench, ${CLIENTS} clients`,
    async measure(seconds) {
      const whole = Math.max(SECONDS_MIN, Math.round(seconds))
      const { stdout } = await promisify(execFile)(
        program,
        [...settings, '-T', `${whole}`, ...where],
        { env: { ...process.env, PGPASSWORD: password }, timeout: whole * 1000 + GRACE_MS },
      )
      const value = Number(/^tps = ([\d.]+)/m.exec(stdout)?.[1])
      const failed = Number(/^number of failed transactions: (\d+)/m.exec(stdout)?.[1] ?? 0)
      if (!(value > 0) || failed > 0) throw new Error(`pgbench: ${stdout}`)
      return { value }
    },
  }
}
