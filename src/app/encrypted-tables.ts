import { encryptedAccounts } from '../accounts/re-encrypt-accounts.ts'
import { authenticatedAudit } from '../auth/audit/re-mac-audit.ts'
import type { EncryptedRows } from '../crypto/encrypted-rows.ts'
import { encryptedNotifications } from '../notifications/re-encrypt-notifications.ts'
import type { Database } from '../postgres/orm.ts'
import { encryptedConnections } from '../webhooks/connections/re-encrypt-connections.ts'
import { encryptedSecrets } from '../webhooks/endpoints/re-encrypt-secrets.ts'

/** Everything in the database that depends on the master key. A rotation of the master key re-encrypts them all. */
export function encryptedTables(database: Database): readonly EncryptedRows[] {
  return [
    encryptedAccounts(database),
    encryptedSecrets(database.pool),
    encryptedConnections(database.pool),
    encryptedNotifications(database),
    authenticatedAudit(database.pool),
  ]
}
