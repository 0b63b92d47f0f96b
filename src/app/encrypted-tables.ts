import { encryptedAccounts } from '../accounts/re-encrypt-accounts.ts'
import { authenticatedAudit } from '../auth/audit/re-mac-audit.ts'
import { type EncryptedRows, encryptedColumn } from '../crypto/encrypted-rows.ts'
import { NOTIFICATION_COLUMN } from '../notifications/raw-notification.ts'
import type { Database } from '../postgres/orm.ts'
import { CONNECTION_COLUMN } from '../webhooks/connections/connection.ts'
import { SECRET_COLUMN } from '../webhooks/sender/sign.ts'

/** Everything in the database that depends on the master key. A rotation of the master key re-encrypts them all. */
export function encryptedTables(database: Database): readonly EncryptedRows[] {
  const { durablePool } = database
  return [
    encryptedAccounts(database),
    encryptedColumn(durablePool, SECRET_COLUMN),
    encryptedColumn(durablePool, CONNECTION_COLUMN),
    encryptedColumn(durablePool, NOTIFICATION_COLUMN),
    authenticatedAudit(durablePool),
  ]
}
