import { defineEntity, type InferEntity, p } from '@mikro-orm/core'
import type { EntityManager, MikroORM } from '@mikro-orm/postgresql'
import type { Pool } from 'pg'
import type { BankCode } from '../banks/bank.ts'

/** Identifies a run, which repeats indefinitely. */
export interface RunKey {
  readonly bank: BankCode
  readonly scope: RunScope
}

/** The progress of a run. */
export interface RunState extends Pick<Run, 'inProgress' | 'cursor' | 'missed' | 'failures'> {
  readonly fromMs: number
  /** Exclusive. */
  readonly toMs: number
}

/** A run that this instance owns until `leaseMs`, which also identifies the claim. */
export interface ClaimedRun extends RunKey, RunState {
  readonly leaseMs: number
}

/** Adds the runs that do not exist yet; each is due at once. */
export async function addRuns(
  em: EntityManager,
  keys: readonly RunKey[],
  nowMs: number,
): Promise<void> {
  const now = new Date(nowMs)
  const period = { inProgress: false, fromAt: now, toAt: now, nextAt: now }
  const runs = keys.map((key) => ({ ...key, ...period, cursor: '', missed: 0, failures: 0 }))
  await em.upsertMany(RunEntity, runs, { onConflictAction: 'ignore' })
}

/** Claims the run that has been due longest. An instance that dies loses it when its lease ends. */
export async function claimRun(
  pool: Pool,
  keys: readonly RunKey[],
  nowMs: number,
  leaseMs: number,
): Promise<ClaimedRun | undefined> {
  const { rows } = await pool.query<RunKey & RunState>({
    name: 'reconciliation-run-claim',
    text: `with due as (
        select r.bank as due_bank, r.scope as due_scope from reconciliation_run r
        join unnest($1::text[], $2::text[]) k(bank, scope) on k.bank = r.bank and k.scope = r.scope
        where r.next_at <= $3 order by r.next_at limit 1 for update of r skip locked
      )
      update reconciliation_run set next_at = $4 from due
      where bank = due_bank and scope = due_scope
      returning bank, scope, in_progress as "inProgress", cursor, missed, failures,
        round(date_part('epoch', from_at) * 1000) as "fromMs",
        round(date_part('epoch', to_at) * 1000) as "toMs"`,
    values: [
      keys.map((key) => key.bank),
      keys.map((key) => key.scope),
      new Date(nowMs),
      new Date(leaseMs),
    ],
  })
  return rows[0] && { ...rows[0], leaseMs }
}

/** Stores the progress of a claimed run. @returns false if the claim has been lost */
export async function saveRun(
  em: EntityManager,
  { bank, scope, leaseMs }: ClaimedRun,
  { inProgress, fromMs, toMs, cursor, missed, failures }: RunState,
  nextMs: number,
): Promise<boolean> {
  const period = { inProgress, fromAt: new Date(fromMs), toAt: new Date(toMs) }
  const saved = await em.nativeUpdate(
    RunEntity,
    { bank, scope, nextAt: new Date(leaseMs) },
    { ...period, cursor, missed, failures, nextAt: new Date(nextMs) },
  )
  return saved === 1
}

/** The latest run of each bank and scope. @param bank undefined: all banks */
export async function listRuns({ em }: MikroORM, bank?: BankCode): Promise<readonly Run[]> {
  return em.fork().find(RunEntity, bank === undefined ? {} : { bank }, {
    orderBy: { bank: 'asc', scope: 'desc' },
  })
}

/** The scope of a run: all payments of a bank, recently paid accounts, or all accounts. */
export type RunScope = 'payments' | 'active accounts' | 'all accounts'

/** How far each bank has been searched for payments that its notifications did not report. */
export const RunEntity = defineEntity({
  name: 'ReconciliationRun',
  tableName: 'reconciliation_run',
  properties: {
    bank: p.text().$type<BankCode>().primary(),
    scope: p.text().$type<RunScope>().primary(),
    /** Whether the run of this period is in progress; otherwise it is finished. */
    inProgress: p.boolean(),
    fromAt: p.datetime(3),
    toAt: p.datetime(3),
    /** The next page, or the id of the last account processed; empty at the beginning. */
    cursor: p.text(),
    /** How many payments it found that were not recorded. */
    missed: p.integer(),
    /** How often in a row the bank failed to list payments. */
    failures: p.integer(),
    /** When the run is due to start or continue; a claim moves it to the end of its lease. */
    nextAt: p.datetime(3),
  },
})

export type Run = InferEntity<typeof RunEntity>
