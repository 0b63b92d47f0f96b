import type { EntityManager } from '@mikro-orm/postgresql'
import type { NotNull } from 'kysely'
import type { BankCode } from '../banks/bank.ts'
import { queriesOf } from '../postgres/queries-of.ts'
import type { AccountEntity } from './account.entity.ts'

/**
 * The open accounts that the real bank has opened, by id: it does not know those of the sandbox. One-time
 * accounts that ended are listed for some days more, since banks report some payments late.
 *
 * @param afterId the last account of the previous page; empty at the beginning
 */
export async function listOpenAccounts(
  em: EntityManager,
  bank: BankCode,
  afterId: string,
  limit: number,
) {
  return queriesOf<typeof AccountEntity>(em)
    .selectFrom('account')
    .select(['id', 'reference', 'accountNumber', 'bankAccountId'])
    .where('bank', '=', bank)
    .where(({ or, eb }) => or([eb('status', '=', 'ACTIVE'), eb('endDueAt', 'is not', null)]))
    .where('live', '=', true)
    .where('connector', '=', 'live')
    .where('id', '>', afterId)
    .orderBy('id')
    .limit(limit)
    .$narrowType<{ accountNumber: NotNull }>()
    .execute()
}
