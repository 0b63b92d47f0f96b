import { ACCESS } from './access.ts'
import { BANKING } from './banking.ts'
import { BANKS_LOOSE_ENDS } from './banks.ts'
import { DISPATCH } from './dispatch.ts'
import { DUE_SETTLEMENTS } from './due.ts'
import { ENDPOINT_OPTIONS } from './endpoints.ts'
import { EVENTS } from './events.ts'
import { METRICS } from './metrics.ts'
import type { Mutation } from './mutation.ts'
import { ONE_TIME } from './one-time.ts'
import { OVERVIEWS } from './overview.ts'
import { RELAYING } from './relay.ts'
import { REPLICAS } from './replicas.ts'
import { SESSIONS } from './sessions.ts'
import { SETTLEMENT_RULES } from './settlement.ts'
import { SPLITS } from './splits.ts'
import { STORAGE } from './storage.ts'
import { TRACING } from './tracing.ts'
import { TRANSACTIONS } from './transactions.ts'
import { WEBHOOKS } from './webhooks.ts'

/**
 * Rules whose loss would lose or create money, show a tenant's rows to another, lose, repeat or reorder an
 * event or a webhook, or let a stranger in.
 */
export const MUTATIONS: readonly Mutation[] = [
  ...EVENTS,
  ...STORAGE,
  ...RELAYING,
  ...REPLICAS,
  ...TRANSACTIONS,
  ...ONE_TIME,
  ...SETTLEMENT_RULES,
  ...SPLITS,
  ...DUE_SETTLEMENTS,
  ...WEBHOOKS,
  ...DISPATCH,
  ...ENDPOINT_OPTIONS,
  ...BANKING,
  ...BANKS_LOOSE_ENDS,
  ...OVERVIEWS,
  ...TRACING,
  ...METRICS,
  ...ACCESS,
  ...SESSIONS,
]
