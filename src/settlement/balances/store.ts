import type { Pool, PoolClient } from 'pg'
import type { Balance, BalanceKey } from '../settlement.ts'

interface Row {
  pending_minor: string
  available_minor: string
  fees_minor: string
  is_foreign_snapshot: boolean
}

/** Whether an event of a transaction that the sequencer has seen already has a sequence number. */
const IS_SEQUENCED = `(state.target is not null and o.seq <= state.done_seq
  and pg_visible_in_snapshot(o.xid, state.target))`

const DELTAS = 'o.pending_minor, o.available_minor, o.fees_minor'

/**
 * The balance is the sum of three parts: the events that the sequencer has numbered, the committed
 * events that have no sequence number yet (those of the last milliseconds), and the money that a
 * running settlement has moved so far. One statement reads all three in one snapshot.
 *
 * @returns `isForeignSnapshot`: the sequencer's snapshot is from another database cluster, so the
 * second part is unknown
 */
export async function readBalance(
  client: Pool | PoolClient,
  { businessId, live }: BalanceKey,
): Promise<Balance & { readonly isForeignSnapshot: boolean }> {
  const { rows } = await client.query<Row>({
    name: 'balance-read',
    text: `with state as materialized (
        select snapshot, target, done_seq from sequencer where id = 1
      ), part as (
        select pending_minor, available_minor, fees_minor from event_business_counter
        where business_id = $1 and live = $2
        union all
        select ${DELTAS} from outbox o, state
        where o.xid >= (select pg_snapshot_xmax(snapshot) from state)
          and o.business_id = $1 and o.live = $2 and not ${IS_SEQUENCED}
        union all
        select ${DELTAS} from outbox o, state
        where o.xid = any (array(select pg_snapshot_xip(snapshot) from state))
          and o.business_id = $1 and o.live = $2 and not ${IS_SEQUENCED}
        union all
        select -gross_minor, gross_minor - fees_minor, fees_minor from settlement
        where business_id = $1 and live = $2 and status = 'RUNNING'
      )
      select coalesce(sum(pending_minor), 0) as pending_minor,
        coalesce(sum(available_minor), 0) as available_minor,
        coalesce(sum(fees_minor), 0) as fees_minor,
        (select pg_snapshot_xmax(snapshot) > pg_snapshot_xmax(pg_current_snapshot()) from state)
          as is_foreign_snapshot
      from part`,
    values: [businessId, live],
  })
  const row = rows[0]
  if (row === undefined) throw new Error('an aggregate query must return a row')
  return {
    pendingMinor: BigInt(row.pending_minor),
    availableMinor: BigInt(row.available_minor),
    feesMinor: BigInt(row.fees_minor),
    isForeignSnapshot: row.is_foreign_snapshot,
  }
}
