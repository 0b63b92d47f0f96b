import type { Pool } from 'pg'
import { sealedAccounts } from './accounts/reseal-accounts.ts'
import type { SealedRows } from './encryption/sealed-rows.ts'
import { sealedNotifications } from './notifications/reseal-notifications.ts'
import { sealedSecrets } from './webhooks/reseal-secrets.ts'

/** Everything in the database that was made under a master key. A rotation makes it all anew. */
export function sealedTables(pool: Pool): readonly SealedRows[] {
  return [sealedAccounts(pool), sealedSecrets(pool), sealedNotifications(pool)]
}
