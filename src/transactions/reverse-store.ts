import type { PoolClient } from 'pg'
import { assert } from '../core/errors.ts'
import { appendEvents } from '../events/append-events.ts'
import { appendPostings } from './ledger/append-postings.ts'

/** The posting that reverses another, of the same business: debit and credit are swapped. */
const MIRRORED_POSTING = {
  transaction_id: 'r.id',
  kind: "p.kind || '_reversal'",
  business_id: 'p.business_id',
  live: 'r.live',
  debit_account: 'p.credit_account',
  credit_account: 'p.debit_account',
  amount_minor: 'p.amount_minor',
  created_at: '$3',
}

const changeOf = (account: string) =>
  `coalesce((select amount_minor from changes where account = '${account}'), 0)`

const REVERSAL_EVENT = {
  event_id: '$4',
  kind: "'PAYMENT_REVERSED'",
  occurred_at: '$3',
  payload: '$5',
  subject_id: 'id',
  pending_minor: changeOf('pending'),
  available_minor: changeOf('available'),
  fees_minor: changeOf('fees'),
  // The money was in the balances of the business, and others got all of it. That of a held payment never was.
  nets_zero: `coalesce((select bool_and(amount_minor = 0) from changes
            where account in ('pending', 'available', 'fees')), false)`,
}

/**
 * Reverses a locked, successful transaction: adds the mirror of each of its postings, and an event
 * that carries the change of its business's balances. If it was held, it is so no longer.
 */
export async function reversePostings(
  client: PoolClient,
  id: string,
  reversal: {
    readonly reason: string
    readonly reversedAtMs: number
    readonly eventId: string
    readonly payload: Uint8Array
  },
): Promise<void> {
  const result = await client.query({
    name: 'transaction-reverse',
    text: `with reversed as (
        update transaction set status = 'REVERSED' where id = $1 and status = 'SUCCESS'
        returning id, business_id, live
      ), reason as (
        insert into reversal (transaction_id, reason, reversed_at) select id, $2, $3 from reversed
      ), mirrored as (
        ${appendPostings(MIRRORED_POSTING, 'from reversed r join ledger_posting p on p.transaction_id = r.id')}
        returning business_id, debit_account, credit_account, amount_minor
      ), changes as (
        select account, sum(amount_minor) as amount_minor from (
          select business_id, credit_account as account, amount_minor from mirrored
          union all select business_id, debit_account, -amount_minor from mirrored
        ) side where business_id = (select business_id from reversed) group by account
      ), returned as (
        update payment_variance v set hold = 'RETURNED', decided_at = $3
        from reversed where v.transaction_id = reversed.id and v.hold in ('HELD', 'RETURN_REQUESTED')
      ), published as (
        ${appendEvents(REVERSAL_EVENT, 'from reversed')}
      )
      select id from reversed`,
    values: [
      id,
      reversal.reason,
      new Date(reversal.reversedAtMs),
      reversal.eventId,
      reversal.payload,
    ],
  })
  assert(result.rows.length === 1, 'a locked, successful transaction can be reversed')
}
