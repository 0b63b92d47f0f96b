import type { Pool } from 'pg'
import { encryptedAccounts } from '../accounts/re-encrypt-accounts.ts'
import type { EncryptedRows } from '../crypto/encrypted-rows.ts'
import { encryptedNotifications } from '../notifications/re-encrypt-notifications.ts'
import { encryptedSecrets } from '../webhooks/endpoints/re-encrypt-secrets.ts'

/** Everything in the database that was made under a master key. A rotation makes it all anew. */
export function encryptedTables(pool: Pool): readonly EncryptedRows[] {
  return [encryptedAccounts(pool), encryptedSecrets(pool), encryptedNotifications(pool)]
}
