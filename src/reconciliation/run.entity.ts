import { defineEntity, p } from '@mikro-orm/core'

/** How far each bank has been asked for payments that its notifications did not tell of. */
export const RunEntity = defineEntity({
  name: 'ReconciliationRun',
  tableName: 'reconciliation_pass',
  properties: {
    bank: p.text().primary(),
    scope: p.text().primary(),
    /** Whether the pass of this period goes on; else it is the one that was finished last. */
    underWay: p.boolean(),
    fromAt: p.datetime(3),
    toAt: p.datetime(3),
    /** Where it goes on: a page, or the account that was looked at last; empty at the beginning. */
    place: p.text(),
    /** How many payments it found that were not recorded. */
    missed: p.integer(),
    /** How often in a row the bank could not be asked. */
    failures: p.integer(),
    /** When it goes on or begins; meanwhile it is nobody's, or its instance's for that long. */
    nextAt: p.datetime(3),
  },
})
