import type { Pool } from 'pg'
import type { BankCode } from '../banks/bank.ts'
import { epochMs } from '../postgres/epoch-ms.ts'

/**
 * What a pass looks through: the payments of a bank as a whole, the accounts that were paid into of
 * late, or all accounts.
 */
export type RunScope = 'payments' | 'active accounts' | 'all accounts'

/** One of the passes that are repeated for ever. */
export interface RunKey {
  readonly bank: BankCode
  readonly scope: RunScope
}

/** How far a pass has come. */
export interface RunState {
  /** Whether the pass of this period goes on; else it is the one that was finished last. */
  readonly underWay: boolean
  readonly fromMs: number
  /** Exclusive. */
  readonly toMs: number
  /** A page, or the id of the account that was looked at last; empty at the beginning. */
  readonly place: string
  readonly missed: number
  readonly failures: number
}

/** A pass that is this instance's until `leaseMs`, which names the claim too. */
export interface ClaimedRun extends RunKey, RunState {
  readonly leaseMs: number
}

/** Makes the passes known that are not yet; each begins at once. */
export async function addRuns(pool: Pool, keys: readonly RunKey[], nowMs: number): Promise<void> {
  await pool.query({
    name: 'reconciliation-pass-add',
    text: `insert into reconciliation_pass
        (bank, scope, under_way, from_at, to_at, place, missed, failures, next_at)
      select k.bank, k.scope, false, $3, $3, '', 0, 0, $3 from unnest($1::text[], $2::text[]) k(bank, scope)
      on conflict do nothing`,
    values: [keys.map((key) => key.bank), keys.map((key) => key.scope), new Date(nowMs)],
  })
}

/** Takes the pass that has been due longest. Whoever dies over one loses it when its lease ends. */
export async function claimRun(
  pool: Pool,
  keys: readonly RunKey[],
  nowMs: number,
  leaseMs: number,
): Promise<ClaimedRun | undefined> {
  const result = await pool.query<
    RunKey & {
      under_way: boolean
      from_ms: number
      to_ms: number
      place: string
      missed: number
      failures: number
    }
  >({
    name: 'reconciliation-pass-claim',
    text: `with due as (
        select p.bank as due_bank, p.scope as due_scope from reconciliation_pass p
        join unnest($1::text[], $2::text[]) k(bank, scope) on k.bank = p.bank and k.scope = p.scope
        where p.next_at <= $3 order by p.next_at limit 1 for update of p skip locked
      )
      update reconciliation_pass set next_at = $4 from due
      where bank = due_bank and scope = due_scope
      returning bank, scope, under_way, place, missed, failures,
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
  const { bank, scope, under_way: underWay, from_ms: fromMs, to_ms: toMs } = row
  const { place, missed, failures } = row
  return { bank, scope, underWay, fromMs, toMs, place, missed, failures, leaseMs }
}

/** Writes down how far a claimed pass has come. @returns whether it was this claim's still */
export async function saveRun(
  pool: Pool,
  { bank, scope, leaseMs }: ClaimedRun,
  state: RunState,
  nextMs: number,
): Promise<boolean> {
  const result = await pool.query({
    name: 'reconciliation-pass-save',
    text: `update reconciliation_pass set under_way = $4, from_at = $5, to_at = $6, place = $7,
        missed = $8, failures = $9, next_at = $10
      where bank = $1 and scope = $2 and next_at = $3`,
    values: [
      bank,
      scope,
      new Date(leaseMs),
      state.underWay,
      new Date(state.fromMs),
      new Date(state.toMs),
      state.place,
      state.missed,
      state.failures,
      new Date(nextMs),
    ],
  })
  return result.rowCount === 1
}
