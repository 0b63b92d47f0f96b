import { encryptedAccounts } from '../accounts/re-encrypt-accounts.ts'
import type { EncryptedRows } from '../crypto/encrypted-rows.ts'
import { encryptedNotifications } from '../notifications/re-encrypt-notifications.ts'
import type { Database } from '../postgres/orm.ts'
import { encryptedSecrets } from '../webhooks/endpoints/re-encrypt-secrets.ts'

/** Every encrypted column of the database. A rotation of the master key re-encrypts them all. */
export function encryptedTables(database: Database): readonly EncryptedRows[] {
  return [
    encryptedAccounts(database),
    encryptedSecrets(database.pool),
    encryptedNotifications(database),
  ]
}
