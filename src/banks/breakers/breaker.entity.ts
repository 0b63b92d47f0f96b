import { defineEntity, p } from '@mikro-orm/core'
import type { BankCode } from '../bank.ts'
import type { BreakerState } from '../http/circuit-breaker.ts'

/** The circuit breakers that are not closed. Each process of the service has one for each live bank. */
export const BreakerEntity = defineEntity({
  name: 'BankBreaker',
  tableName: 'bank_breaker',
  properties: {
    bank: p.text().$type<BankCode>().primary(),
    processId: p.text().primary(),
    state: p.text().$type<Exclude<BreakerState, 'closed'>>(),
    openedAt: p.datetime(3),
    /** By the database's clock, as above. A process that died does not report any more. */
    seenAt: p.datetime(3),
  },
})
