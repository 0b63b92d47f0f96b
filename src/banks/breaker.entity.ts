import { defineEntity, p } from '@mikro-orm/core'
import type { BankCode } from './bank.ts'
import type { BreakerState } from './http/circuit-breaker.ts'

/**
 * The live banks whose circuit breaker is not closed, or that deny access, as a process of the service finds
 * them.
 */
export const BreakerEntity = defineEntity({
  name: 'BankBreaker',
  tableName: 'bank_breaker',
  properties: {
    bank: p.text().$type<BankCode>().primary(),
    processId: p.text().primary(),
    state: p.text().$type<BreakerState>(),
    /** Why the bank denied the latest call access; empty if it did not. */
    denial: p.text().default(''),
    /** Since when it is not as it should be. */
    openedAt: p.datetime(3),
    /** By the database's clock, as above. A process that died does not report any more. */
    seenAt: p.datetime(3),
  },
})
