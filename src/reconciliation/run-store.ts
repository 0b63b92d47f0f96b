import type { Pool } from 'pg'
import type { BankCode } from '../banks/bank.ts'
import { epochMs } from '../postgres/epoch-ms.ts'
import type { RunScope } from './run.entity.ts'

/** Identifies a run, which repeats indefinitely. */
export interface RunKey {
  readonly bank: BankCode
  readonly scope: RunScope
}

/** The progress of a run. */
export interface RunState {
  /** Whether the run of this period is in progress; else it is the last finished one. */
  readonly inProgress: boolean
  readonly fromMs: number
  /** Exclusive. */
  readonly toMs: number
  /** The next page, or the id of the last account processed; empty at the beginning. */
  readonly cursor: string
  readonly missed: number
  readonly failures: number
}

/** A run that this instance owns until `leaseMs`, which also identifies the claim. */
export interface ClaimedRun extends RunKey, RunState {
  readonly leaseMs: number
}

/** Adds the runs that do not exist yet; each is due at once. */
export async function addRuns(pool: Pool, keys: readonly RunKey[], nowMs: number): Promise<void> {
  await pool.query({
    name: 'reconciliation-run-add',
    text: `insert into reconciliation_run
        (bank, scope, in_progress, from_at, to_at, cursor, missed, failures, next_at)
      select k.bank, k.scope, false, $3, $3, '', 0, 0, $3 from unnest($1::text[], $2::text[]) k(bank, scope)
      on conflict do nothing`,
    values: [keys.map((key) => key.bank), keys.map((key) => key.scope), new Date(nowMs)],
  })
}

/** Claims the run that has been due longest. An instance that dies loses it when its lease ends. */
export async function claimRun(
  pool: Pool,
  keys: readonly RunKey[],
  nowMs: number,
  leaseMs: number,
): Promise<ClaimedRun | undefined> {
  const result = await pool.query<
    RunKey & {
      in_progress: boolean
      from_ms: number
      to_ms: number
      cursor: string
      missed: number
      failures: number
    }
  >({
    name: 'reconciliation-run-claim',
    text: `with due as (
        select r.bank as due_bank, r.scope as due_scope from reconciliation_run r
        join unnest($1::text[], $2::text[]) k(bank, scope) on k.bank = r.bank and k.scope = r.scope
        where r.next_at <= $3 order by r.next_at limit 1 for update of r skip locked
      )
      update reconciliation_run set next_at = $4 from due
      where bank = due_bank and scope = due_scope
      returning bank, scope, in_progress, cursor, missed, failures,
        ${epochMs('from_at')} as from_ms,
        ${epochMs('to_at')} as to_ms`,
    values: [
      keys.map((key) => key.bank),
      keys.map((key) => key.scope),
      new Date(nowMs),
      new Date(leaseMs),
    ],
  })
  const row = result.rows[0]
  if (row === undefined) return undefined
  const { bank, scope, in_progress: inProgress, from_ms: fromMs, to_ms: toMs } = row
  const { cursor, missed, failures } = row
  return { bank, scope, inProgress, fromMs, toMs, cursor, missed, failures, leaseMs }
}

/** Stores the progress of a claimed run. @returns false if the claim has been lost */
export async function saveRun(
  pool: Pool,
  { bank, scope, leaseMs }: ClaimedRun,
  state: RunState,
  nextMs: number,
): Promise<boolean> {
  const result = await pool.query({
    name: 'reconciliation-run-save',
    text: `update reconciliation_run set in_progress = $4, from_at = $5, to_at = $6, cursor = $7,
        missed = $8, failures = $9, next_at = $10
      where bank = $1 and scope = $2 and next_at = $3`,
    values: [
      bank,
      scope,
      new Date(leaseMs),
      state.inProgress,
      new Date(state.fromMs),
      new Date(state.toMs),
      state.cursor,
      state.missed,
      state.failures,
      new Date(nextMs),
    ],
  })
  return result.rowCount === 1
}
