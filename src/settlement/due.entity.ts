import { defineEntity, p } from '@mikro-orm/core'

/**
 * The index of what is due: a row for each balance with unsettled payments. `dueAt` is when the oldest
 * of them is due. `nextAt` is when the job looks at the balance: not before, later after a failure, and
 * moved ahead while an instance settles it. Payments do not write it: see `follow-payments.ts`. No
 * foreign key: it would lock the business for each row.
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

/** One row: the balance after which the sweep of the index continues, and when it does. */
export const SweepEntity = defineEntity({
  name: 'SettlementSweep',
  tableName: 'settlement_sweep',
  properties: {
    id: p.integer().primary().autoincrement(false),
    nextAt: p.datetime(3),
    afterBusinessId: p.text(),
    afterLive: p.boolean(),
    /** Whether due times changed, or events are missing: what it repairs is then no fault. */
    isExpected: p.boolean(),
  },
  checks: [{ name: 'settlement_sweep_one_row', expression: 'id = 1' }],
})
