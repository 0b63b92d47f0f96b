import type { Pool, PoolClient } from 'pg'
import type { Balance, Book } from '../settlement.ts'

interface Row {
  pending_minor: string
  available_minor: string
  fees_minor: string
  foreign: boolean
}

/** Whether an event, whose transaction the sequencer knows, has its number already. */
const NUMBERED = `(state.target is not null and o.seq <= state.done_seq
  and pg_visible_in_snapshot(o.xid, state.target))`

const DELTAS = 'o.pending_minor, o.available_minor, o.fees_minor'

/**
 * A balance: what the sequencer has summed with the numbers it gave, what is committed and has no
 * number yet (the events of some milliseconds), and what a running settlement has moved so far.
 * One statement, and so one view of all three.
 *
 * @returns `foreign`: the sequencer's snapshot is of another cluster, so that the second part is
 * not known
 */
export async function readBalance(
  client: Pool | PoolClient,
  { businessId, live }: Book,
): Promise<Balance & { readonly foreign: boolean }> {
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
          and o.business_id = $1 and o.live = $2 and not ${NUMBERED}
        union all
        select ${DELTAS} from outbox o, state
        where o.xid = any (array(select pg_snapshot_xip(snapshot) from state))
          and o.business_id = $1 and o.live = $2 and not ${NUMBERED}
        union all
        select -gross_minor, gross_minor - fees_minor, fees_minor from settlement
        where business_id = $1 and live = $2 and status = 'RUNNING'
      )
      select coalesce(sum(pending_minor), 0) as pending_minor,
        coalesce(sum(available_minor), 0) as available_minor,
        coalesce(sum(fees_minor), 0) as fees_minor,
        (select pg_snapshot_xmax(snapshot) > pg_snapshot_xmax(pg_current_snapshot()) from state)
          as foreign
      from part`,
    values: [businessId, live],
  })
  const row = rows[0]
  if (row === undefined) throw new Error('a sum always has a row')
  return {
    pendingMinor: BigInt(row.pending_minor),
    availableMinor: BigInt(row.available_minor),
    feesMinor: BigInt(row.fees_minor),
    foreign: row.foreign,
  }
}
