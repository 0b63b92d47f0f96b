import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { MigrationObject } from '@mikro-orm/core'
import { Migration } from '@mikro-orm/migrations'

/** A migration. Its name is stored in `schema_migration`, so the name of an applied migration never changes. */
export interface SqlMigration extends MigrationObject {
  /**
   * The name of a migration: versions that know it or a later one can work with the schema after this migration. A migration
   * that only adds something names a migration of the oldest version that continues to work. A migration that removes
   * something names a migration of the release that stopped using it. A migration that names itself ends the support
   * of all versions that do not know it.
   */
  readonly worksSince: string
}

// Declared before its calls, because Vite hoists the base class of a class only to just before the enclosing function.
/** @param files in this folder, in the order in which they run */
function sqlMigration(name: string, worksSince: string, files: readonly string[]): SqlMigration {
  class FromFiles extends Migration {
    override up(): void {
      for (const file of files) this.addSql(readFileSync(join(import.meta.dirname, file), 'utf8'))
    }
  }
  return { name, worksSince, class: FromFiles }
}

/** The migration of the first release, which every database of a released version has. */
export const INITIAL = 'Migration20261122000000_initial'

/** All migrations, oldest first. */
export const MIGRATIONS: readonly SqlMigration[] = [
  // The schema of the first release: the tables of the entities, and everything that entities cannot express.
  sqlMigration(INITIAL, INITIAL, [
    // A table comes before tables that refer to it, and the partitions of all tables come last.
    '20261122_initial/shared.sql',
    '20261122_initial/businesses.sql',
    '20261122_initial/auth.sql',
    '20261122_initial/audit.sql',
    '20261122_initial/crypto.sql',
    '20261122_initial/banks.sql',
    '20261122_initial/accounts.sql',
    '20261122_initial/splits.sql',
    '20261122_initial/transactions.sql',
    '20261122_initial/ledger.sql',
    '20261122_initial/events.sql',
    '20261122_initial/sequence_events.sql',
    '20261122_initial/settlement.sql',
    '20261122_initial/webhooks.sql',
    '20261122_initial/figures.sql',
    '20261122_initial/partitions.sql',
  ]),
  // Profiles of webhook endpoints. Existing endpoints have no profile, and their requests keep the headers of both profiles.
  sqlMigration('Migration20261124000000_endpoint_profile', INITIAL, [
    '20261124_endpoint_profile.sql',
  ]),
  // Imports of keys, accounts and payments from another provider. A payment keeps the details of its import.
  sqlMigration('Migration20261125000000_import', INITIAL, ['20261125_import.sql']),
  // Every identity number has its search hash by now, so the index of rows without a hash is dropped.
  sqlMigration('Migration20261126000000_identity_hash', INITIAL, ['20261126_identity_hash.sql']),
  // The log of requests by businesses.
  sqlMigration('Migration20261127000000_api_request', INITIAL, ['20261127_api_request.sql']),
  // The scope `webhooks:write` of tokens and portal links.
  sqlMigration('Migration20261127000000_webhooks_scope', INITIAL, ['20261127_webhooks_scope.sql']),
  // Assignees and notes of review items.
  sqlMigration('Migration20261128000000_review_note', INITIAL, ['20261128_review_note.sql']),
  // Payouts, and the scopes for them.
  sqlMigration('Migration20261129000000_payout', INITIAL, ['20261129_payout.sql']),
  // A payout that is to be sent again is asked about instead.
  sqlMigration('Migration20261130000000_payout_guard', INITIAL, ['20261130_payout_guard.sql']),
  // Payments that reconciliation holds, apart from the banks' notifications.
  sqlMigration('Migration20261201000000_listed_payment', INITIAL, ['20261201_listed_payment.sql']),
  // Fees and shares of refunds that come back after the settlement of their payment.
  sqlMigration('Migration20261201000000_payout_release', INITIAL, ['20261201_payout_release.sql']),
  // No report of a session is assigned once another one was returned outside Inflow.
  sqlMigration('Migration20261201000000_unmatched_guard', INITIAL, [
    '20261201_unmatched_guard.sql',
  ]),
  // Faster hashes of audit entries.
  sqlMigration('Migration20261202000000_audit_hash', INITIAL, ['20261202_audit_hash.sql']),
]
