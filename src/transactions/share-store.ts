import type { PoolClient } from 'pg'
import { findBusinessNames } from '../businesses/get-business.ts'
import { newId } from '../core/ids.ts'
import { appendEvents } from '../events/append-events.ts'
import { byteaArray, textArray } from '../postgres/binary-arrays.ts'
import { isShare } from './ledger/append-postings.ts'
import type { Share, ShareChange } from './message.ts'
import { encodeShareEvent } from './message.ts'

const SHARE_EVENT = {
  event_id: 'e.id',
  business_id: 'e.business_id',
  live: '$1',
  kind: '$2',
  occurred_at: '$3',
  payload: 'e.payload',
  subject_id: '$4',
  available_minor: 'e.minor::bigint',
}

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
    text: appendEvents(
      SHARE_EVENT,
      `from unnest($5::text[], $6::text[], $7::bytea[], $8::text[]) as e(id, business_id, payload, minor)`,
    ),
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

/** The shares of a settled transaction, as they were settled. */
export async function findShares(client: PoolClient, transactionId: string): Promise<Share[]> {
  const { rows } = await client.query<{ business_id: string; amount_minor: string }>({
    name: 'transaction-shares',
    text: `select business_id, amount_minor from ledger_posting
      where transaction_id = $1 and ${isShare('kind')} and settlement_id is not null order by kind`,
    values: [transactionId],
  })
  return rows.map((row) => {
    return { businessId: row.business_id, count: 1, amountMinor: BigInt(row.amount_minor) }
  })
}
