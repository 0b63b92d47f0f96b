import { ACCESS } from './access.ts'
import { EVENTS } from './events.ts'
import type { Mutation } from './mutation.ts'
import { PAYOUTS } from './payouts.ts'
import { SETTLEMENT } from './settlement.ts'
import { TRANSACTIONS } from './transactions.ts'
import { WEBHOOKS } from './webhooks.ts'

/**
 * Conditions in SQL whose loss would lose or create money, show a tenant's rows to another, or lose, repeat or reorder
 * an event or a webhook. Stryker does not see them; it breaks the rules in TypeScript: see `rules/`.
 */
export const MUTATIONS: readonly Mutation[] = [
  ...EVENTS,
  ...TRANSACTIONS,
  ...SETTLEMENT,
  ...WEBHOOKS,
  ...ACCESS,
  ...PAYOUTS,
]
