import type { PoolClient } from 'pg'
import pg from 'pg'
import { newId, newReference } from '../core/ids.ts'
import { ROWS_MAX } from '../events/sequencer.ts'
import type { Database } from '../postgres/orm.ts'
import { type NewTransaction, recordStatement } from '../transactions/store.ts'
import { createFindings, type Finding } from './finding.ts'

/** The number of payments in a batch, as at a thousand payments a second. */
const PAYMENTS = 64
const ROUNDS = 9

/** A slower disk delays every payment. */
const COMMIT_WARN_MS = 20
/** With longer ticks, webhooks are late: see the alert InflowSlowTicks. */
const TICK_WARN_MS = 100
const RECORDING_WARN_MS = 100

/** The durations of the database work that every payment needs: medians, in milliseconds. */
interface Durations {
  readonly commitMs: number
  readonly recordingMs: number
  readonly tickMs: number
}

/**
 * Measures a commit, the recording of a batch, and the tick that numbers its events, with the statements and
 * session settings of the service. Recording and tick are rolled back; a running service waits for their locks a few times
 * for some milliseconds. Also reports the shares of statements from `pg_stat_statements`, if the database has it.
 */
export async function measureDatabase(database: Database): Promise<readonly Finding[]> {
  const shares = await findStatementShares(database.durablePool)
  const { commitMs, recordingMs, tickMs } = await measure(database)
  const findings = createFindings('Database')
  const add = (found: string, ms: number, warnMs: number, advice: string) => {
    const text = `${found} takes ${ms.toFixed(1)} ms`
    if (ms > warnMs) findings.warn(text, advice)
    else findings.ok(text)
  }
  add(
    'a commit',
    commitMs,
    COMMIT_WARN_MS,
    "every payment waits for one: give the server's log a faster disk, or a nearer synchronous standby",
  )
  const advice = 'see the settings above, and end long transactions (pg_stat_activity)'
  add(`recording ${PAYMENTS} payments`, recordingMs, RECORDING_WARN_MS, advice)
  add(`a tick of the sequencer with ${PAYMENTS} events`, tickMs, TICK_WARN_MS, advice)
  for (const found of shares) findings.ok(found)
  return findings.all
}

async function measure({ recordingPool }: Database): Promise<Durations> {
  const [commits, work] = await Promise.all([recordingPool.connect(), recordingPool.connect()])
  const rounds: Durations[] = []
  try {
    while (rounds.length < ROUNDS) {
      const round = await measureRound(commits, work)
      if (round !== undefined) rounds.push(round)
    }
  } finally {
    commits.release()
    // After a failure, the transaction may still be open, so the connection is closed.
    work.release(rounds.length < ROUNDS)
  }
  const median = (of: (round: Durations) => number) =>
    rounds.map(of).toSorted((a, b) => a - b)[ROUNDS >> 1] as number
  return {
    commitMs: median((round) => round.commitMs),
    recordingMs: median((round) => round.recordingMs),
    tickMs: median((round) => round.tickMs),
  }
}

/** @returns undefined if the service was ticking at that moment */
async function measureRound(commits: PoolClient, work: PoolClient): Promise<Durations | undefined> {
  await work.query('begin')
  try {
    const payments = await createPayments(work)
    const recordingMs = await durationOf(() => work.query(recordStatement(payments)))
    // This commit has a later transaction id, so the tick below treats the recorded events as committed.
    const commitMs = await durationOf(() => commit(commits))
    let isBusy = false
    const tickMs = await durationOf(async () => {
      const { rows } = await work.query<{ more: boolean | null }>({
        name: 'sequence-events-measured',
        text: 'select more from sequence_events($1)',
        values: [ROWS_MAX],
      })
      isBusy = rows[0]?.more === null
    })
    return isBusy ? undefined : { commitMs, recordingMs, tickMs }
  } finally {
    await work.query('rollback')
  }
}

/** Commits a WAL record that has no effect. */
async function commit(client: PoolClient): Promise<void> {
  await client.query(
    "select pg_current_xact_id(), pg_logical_emit_message(true, 'inflow doctor', '')",
  )
}

/** Creates payments for a business and an account that only this transaction sees. */
async function createPayments(on: PoolClient): Promise<readonly NewTransaction[]> {
  const nowMs = Date.now()
  const [businessId, accountId, reference] = [
    newId('biz', nowMs),
    newId('acc', nowMs),
    newReference(),
  ]
  await on.query(
    "insert into business (id, name, alias, created_at) values ($1, 'doctor', 'doctor', now())",
    [businessId],
  )
  await on.query(
    `insert into account (id, business_id, live, reference, merchant_reference, bank, account_number, account_name,
        status, first_name, last_name, email, phone, details_hash, attempts, claimed_until, created_at)
      values ($1, $2, false, $3, $3, '9PSB', $3, 'doctor', 'ACTIVE', '', '', '', '', '', 0, now(), now())`,
    [accountId, businessId, reference],
  )
  return Array.from({ length: PAYMENTS }, () => ({
    id: newId('txn', nowMs),
    businessId,
    accountId,
    live: false,
    bank: '9PSB' as const,
    accountNumber: reference,
    sessionId: newId('doctor', nowMs),
    amountMinor: 100n,
    status: 'SUCCESS' as const,
    paidAtMs: nowMs,
    createdAtMs: nowMs,
    payer: { name: '', accountNumber: '', bankCode: '', bankName: '' },
    narration: '',
    recordedBy: 'doctor' as NewTransaction['recordedBy'],
    eventId: newId('evt', nowMs),
    payload: new Uint8Array(600),
  }))
}

async function durationOf(run: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now()
  await run()
  return performance.now() - startedMs
}

/** The most statements that are listed; they take nearly all of the time. */
const STATEMENTS_MAX = 10
const TEXT_MAX = 80

/** SQLSTATEs if the extension is not in the database, or not in `shared_preload_libraries`. */
const ABSENT = ['42P01', '55000']

/**
 * Returns the shares of statements in the time of the database since its statistics were reset, the largest first. If the
 * extension `pg_stat_statements` is missing, returns one line that says so.
 */
async function findStatementShares(pool: pg.Pool): Promise<readonly string[]> {
  try {
    const { rows } = await pool.query<{ share: number; calls: string; ms: number; text: string }>(
      `select sum(total_exec_time) / sum(sum(total_exec_time)) over () * 100 as share, sum(calls) as calls,
          sum(total_exec_time) / sum(calls) as ms, left(regexp_replace(query, '[[:space:]]+', ' ', 'g'), $1) as text
        from pg_stat_statements
        where dbid = (select oid from pg_database where datname = current_database())
        group by query order by share desc limit $2`,
      [TEXT_MAX, STATEMENTS_MAX],
    )
    return rows.map(
      ({ share, calls, ms, text }) =>
        `${share.toFixed(1)} % of the database's time: ${calls} calls of ${ms.toFixed(2)} ms, ${text}`,
    )
  } catch (error) {
    if (!(error instanceof pg.DatabaseError && ABSENT.includes(error.code ?? ''))) throw error
    return ['the shares of the statements are unknown: the database has no pg_stat_statements']
  }
}
