import type { Pool } from 'pg'
import { encryptedAccounts } from '../accounts/re-encrypt-accounts.ts'
import type { EncryptedRows } from '../crypto/encrypted-rows.ts'
import { encryptedNotifications } from '../notifications/re-encrypt-notifications.ts'
import { encryptedSecrets } from '../webhooks/endpoints/re-encrypt-secrets.ts'

/** Every encrypted column of the database. A rotation of the master key re-encrypts them all. */
export function encryptedTables(pool: Pool): readonly EncryptedRows[] {
  return [encryptedAccounts(pool), encryptedSecrets(pool), encryptedNotifications(pool)]
}
