import type { PoolClient } from 'pg'
import { findBusinessNames } from '../businesses/get-business.ts'
import { newId } from '../core/ids.ts'
import { byteaArray, textArray } from '../postgres/binary-arrays.ts'
import type { Share, ShareChange } from './message.ts'
import { encodeShareEvent } from './message.ts'

/** Appends an event for each recipient, with the change of its balance, in the transaction of the postings. */
export async function appendShareEvents(
  client: PoolClient,
  change: ShareChange,
  shares: readonly Share[],
): Promise<void> {
  if (shares.length === 0) return
  const { kind, ownerId, atMs } = change
  const ownerName = (await findBusinessNames(client, [ownerId])).get(ownerId) ?? ''
  const events = shares.map((share) => {
    const id = newId('evt', atMs)
    return { id, share, payload: encodeShareEvent(change, ownerName, share, id) }
  })
  const sign = kind === 'SHARE_SETTLED' ? 1n : -1n
  await client.query({
    name: 'share-events',
    text: `insert into outbox (event_id, business_id, live, kind, occurred_at, payload, subject_id,
        available_minor)
      select e.id, e.business_id, $1, $2, $3, e.payload, $4, e.minor::bigint
      from unnest($5::text[], $6::text[], $7::bytea[], $8::text[]) as e(id, business_id, payload, minor)`,
    values: [
      change.live,
      kind,
      new Date(atMs),
      change.subjectId,
      textArray(events.map(({ id }) => id)),
      textArray(events.map(({ share }) => share.businessId)),
      byteaArray(events.map(({ payload }) => payload)),
      textArray(events.map(({ share }) => `${sign * share.amountMinor}`)),
    ],
  })
}

/** The shares of a settled transaction, as its settlement divided them. */
export async function findShares(client: PoolClient, transactionId: string): Promise<Share[]> {
  const { rows } = await client.query<{ business_id: string; amount_minor: string }>({
    name: 'transaction-shares',
    text: `select business_id, amount_minor from ledger_posting
      where transaction_id = $1 and starts_with(kind, 'share_') and settlement_id is not null order by kind`,
    values: [transactionId],
  })
  return rows.map((row) => {
    return { businessId: row.business_id, count: 1, amountMinor: BigInt(row.amount_minor) }
  })
}
