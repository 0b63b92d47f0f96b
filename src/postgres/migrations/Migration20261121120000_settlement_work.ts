import { Migration } from '@mikro-orm/migrations'

/** Indexes for background work: uncompleted settlement requests, and the active accounts of a bank. */
export class Migration20261121120000_settlement_work extends Migration {
  override up(): void {
    for (const statement of STATEMENTS) this.addSql(statement)
  }
}

const STATEMENTS = [
  `create index account_active_bank_index on "account" (bank, id) where status = 'ACTIVE' and live`,
  `create index settlement_request_open_index on "settlement_request" (id) where completed_at is null`,
]
