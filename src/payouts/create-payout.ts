import type { Actor } from '../auth/caller.ts'
import { businessNotFound } from '../businesses/get-business.ts'
import { assert } from '../core/errors.ts'
import type { Queryable } from '../postgres/in-transaction.ts'
import type { Payout } from './payout.ts'
import { NO_ORIGIN, type PayoutContext, replay, requesterOf, reserve } from './reserve-payout.ts'
import { type RequestedAccount, resolveAccount } from './resolve-name.ts'
import { findByReference } from './store.ts'

/** A request for a payout. */
export interface PayoutRequest {
  readonly businessId: string
  readonly live: boolean
  /** Unique for the business and mode. */
  readonly reference: string
  readonly amountMinor: bigint
  readonly account: RequestedAccount
  /** The token of an earlier name enquiry, in place of an expected name; may be empty. */
  readonly resolution: string
  /** Empty: the name of the business is used. */
  readonly narration: string
}

/**
 * Requests a payout: resolves the name of its account, applies the rules, and reserves its amount, fee and duty. A repeat
 * with the same details returns the original.
 *
 * @throws Fault not_found, validation_failed, name_mismatch, duplicate_reference, insufficient_balance, payouts_paused,
 * bank_unavailable, unavailable
 */
export async function createPayout(
  context: PayoutContext,
  request: PayoutRequest,
  actor: Pick<Actor, 'kind' | 'id'>,
): Promise<{ readonly payout: Payout; readonly replayed: boolean }> {
  const { database, institutions, clock } = context
  const { name, isUsed } = await readRequester(database.durablePool, request)
  if (isUsed) {
    const original = await findByReference(database.durablePool, request)
    assert(original, 'a payout is never removed')
    const { amountMinor, account, narration } = request
    const isSame =
      original.purpose === 'PAYOUT' &&
      original.amountMinor === amountMinor &&
      original.destination.bankCode === institutions.find(account.bankCode)?.code &&
      original.destination.accountNumber === account.accountNumber &&
      // An empty narration counts as equal, because the business may have been renamed since.
      ['', original.narration].includes(narration)
    return replay(original, isSame)
  }
  const resolved = await resolveAccount(context, request, request, clock.now())
  const narration = request.narration || name
  return reserve(context, {
    ...request,
    ...NO_ORIGIN,
    purpose: 'PAYOUT',
    source: 'available',
    resolved,
    narration,
    requestedBy: requesterOf(actor),
    approval: '',
    amountField: 'amountMinor',
  })
}

/** The name of a business, and whether it has used the reference before. @throws Fault not_found */
async function readRequester(
  on: Queryable,
  { businessId, live, reference }: Pick<PayoutRequest, 'businessId' | 'live' | 'reference'>,
): Promise<{ readonly name: string; readonly isUsed: boolean }> {
  const { rows } = await on.query<{ name: string; isUsed: boolean }>({
    name: 'payout-requester',
    text: `select name, exists (
        select from payout where business_id = business.id and live = $2 and reference = $3) as "isUsed"
      from business where id = $1`,
    values: [businessId, live, reference],
  })
  if (rows[0] === undefined) throw businessNotFound()
  return rows[0]
}
