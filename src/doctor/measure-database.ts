import type { PoolClient } from 'pg'
import pg from 'pg'
import { newId, newReference } from '../core/ids.ts'
import { ROWS_MAX } from '../events/sequencer.ts'
import type { Database } from '../postgres/orm.ts'
import { type NewTransaction, recordOn } from '../transactions/store.ts'
import { createFindings, type Finding } from './finding.ts'

/** As many payments as a batch has at a thousand payments a second. */
const PAYMENTS = 64
const ROUNDS = 9

/** A disk that is slower holds up every payment. */
const COMMIT_WARN_MS = 20
/** Longer, and webhooks are late: see the alert InflowSlowTicks. */
const TICK_WARN_MS = 100
const RECORDING_WARN_MS = 100

/** How long the database takes for what every payment needs: medians, in milliseconds. */
interface Durations {
  readonly commitMs: number
  readonly recordingMs: number
  readonly tickMs: number
}

/**
 * Measures a commit, the recording of a batch and the tick that numbers its events, with the statements and in the
 * sessions of the service. Recording and tick are rolled back; a running service waits for them a few times for some
 * milliseconds. The shares of the statements so far come from `pg_stat_statements`, if the database has it.
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
    // A failure may have left its transaction open.
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
    const recordingMs = await durationOf(() => recordOn(work, payments))
    // It has a later transaction id, so the tick below takes the recorded events for committed ones.
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

/** Commits a record of the log that means nothing. */
async function commit(client: PoolClient): Promise<void> {
  await client.query(
    "select pg_current_xact_id(), pg_logical_emit_message(true, 'inflow doctor', '')",
  )
}

/** Payments into an account of a business that only this transaction sees. */
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

/** Statements that are named: these take nearly all of the time. */
const STATEMENTS_MAX = 10
const TEXT_MAX = 80

/** The extension is not in the database, or not among `shared_preload_libraries`. */
const ABSENT = ['42P01', '55000']

/**
 * What the database has spent its time on since its statistics were reset, the largest share first. Without the
 * extension `pg_stat_statements` one line that says so.
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
