import type { Database } from '../store/orm.ts'
import type { Page } from '../store/page-token.ts'
import { type Account, AccountEntity } from './account.entity.ts'
import type { AccountStatus, StoredAccount } from './account.ts'

/** Which accounts; undefined: any. */
interface AccountFilter {
  readonly businessId: string | undefined
  readonly live: boolean | undefined
  /** The only businesses that there are for the caller; undefined: all. */
  readonly allowed: ReadonlySet<string> | undefined
  readonly status: AccountStatus | undefined
  /** What the identity number may be hashed to. */
  readonly idNumberHashes: readonly Buffer[] | undefined
}

/** Accounts, newest first; one more than the page holds, when there is one. */
export async function listAccounts(
  database: Database,
  filter: AccountFilter,
  page: Page,
): Promise<StoredAccount[]> {
  const after = page.after?.[0]
  const where = {
    ...(filter.allowed !== undefined && { business: { $in: [...filter.allowed] } }),
    // The business that was asked for is one of the allowed ones.
    ...(filter.businessId !== undefined && { business: filter.businessId }),
    ...(filter.live !== undefined && { live: filter.live }),
    ...(filter.status !== undefined && { status: filter.status }),
    ...(filter.idNumberHashes !== undefined && { idNumberHash: { $in: filter.idNumberHashes } }),
    ...(after !== undefined && { id: { $lt: after } }),
  }
  const rows = await database.orm.em
    .fork()
    .find(AccountEntity, where, { orderBy: { id: 'desc' }, limit: page.limit + 1 })
  return rows.map(toStored)
}

function toStored(row: Account): StoredAccount {
  return {
    id: row.id,
    businessId: row.business,
    live: row.live,
    reference: row.reference,
    merchantReference: row.merchantReference,
    bank: row.bank as StoredAccount['bank'],
    accountNumber: row.accountNumber ?? undefined,
    accountName: row.accountName ?? undefined,
    status: row.status as AccountStatus,
    firstName: row.firstName,
    lastName: row.lastName,
    email: row.email,
    phone: row.phone,
    bankAccountId: row.bankAccountId,
    detailsHash: row.detailsHash,
    openingState: row.openingState as StoredAccount['openingState'],
    lastCause: row.lastCause,
    nextTryAtMs: row.nextTryAt?.getTime(),
    attempts: row.attempts,
    createdAtMs: row.createdAt.getTime(),
  }
}
