import { defineEntity, type InferEntity, p } from '@mikro-orm/core'
import type { BankCode } from '../banks/bank.ts'

/** What a run searches: all payments of a bank, recently paid accounts, or all accounts. */
export type RunScope = 'payments' | 'active accounts' | 'all accounts'

/** How far each bank has been searched for payments that its notifications did not report. */
export const RunEntity = defineEntity({
  name: 'ReconciliationRun',
  tableName: 'reconciliation_run',
  properties: {
    bank: p.text().$type<BankCode>().primary(),
    scope: p.text().$type<RunScope>().primary(),
    /** Whether the run of this period is in progress; else it is the last finished one. */
    inProgress: p.boolean(),
    fromAt: p.datetime(3),
    toAt: p.datetime(3),
    /** The next page, or the id of the last account processed; empty at the beginning. */
    cursor: p.text(),
    /** How many payments it found that were not recorded. */
    missed: p.integer(),
    /** How often in a row listing payments at the bank failed. */
    failures: p.integer(),
    /** When the run is due to start or continue; a claim moves it to the end of its lease. */
    nextAt: p.datetime(3),
  },
})

export type Run = InferEntity<typeof RunEntity>
