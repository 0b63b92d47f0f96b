import { defineEntity, p } from '@mikro-orm/core'

/**
 * The index of what is due: a row for each balance with unsettled payments. `dueAt` is when the oldest of them is due.
 * The job settles the balance from `nextAt` on: a failure postpones it, and so does the claim of an instance. Payments
 * do not write it: see `follow-payments.ts`. No foreign key: it would lock the business for each row.
 */
export const DueEntity = defineEntity({
  name: 'SettlementDue',
  tableName: 'settlement_due',
  properties: {
    businessId: p.text().primary(),
    live: p.boolean().primary(),
    dueAt: p.datetime(3),
    nextAt: p.datetime(3),
    /** Failed attempts in a row. */
    failures: p.integer(),
  },
  indexes: [
    { properties: ['nextAt'] },
    // For lists of what is due, in pages.
    { properties: ['dueAt', 'businessId', 'live'] },
  ],
})

/** The state of the sweep of the index, in one row: the balance after which it continues, and when. */
export const SweepEntity = defineEntity({
  name: 'SettlementSweep',
  tableName: 'settlement_sweep',
  properties: {
    id: p.integer().primary().autoincrement(false),
    nextAt: p.datetime(3),
    afterBusinessId: p.text(),
    afterLive: p.boolean(),
    /** Whether due times changed, or events are missing. Repairs are then expected, and not logged as errors. */
    isExpected: p.boolean(),
  },
  checks: [{ name: 'settlement_sweep_one_row', expression: 'id = 1' }],
})
