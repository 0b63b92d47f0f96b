import {
  balanceUpTo,
  ENTRIES_IN_RANGE,
  MONEY_EVENTS,
} from '../../events/balance-changes/balance-changes.sql.ts'
import { epochMs } from '../../postgres/epoch-ms.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'
import { joinTransaction } from '../../transactions/transaction.sql.ts'
import type { Balance, BalanceKey } from '../settlement.ts'

/** A statement entry: how one event changed the balance of a business. */
export interface Entry extends Balance {
  readonly sequence: bigint
  readonly kind: string
  readonly bookedAtMs: number
  /** The id of a transaction or a settlement. */
  readonly subjectId: string
  /** Empty for a settlement, and for a transaction of another business. */
  readonly sessionId: string
}

interface Row {
  business_sequence: string
  kind: string
  logged_at_ms: number
  subject_id: string
  session_id: string | null
  pending_minor: string
  available_minor: string
  fees_minor: string
}

/** A range of sequence numbers of a business and mode: `after` exclusive, `upTo` inclusive. */
interface Range extends BalanceKey {
  readonly after: bigint
  readonly upTo: bigint
}

/**
 * The entries of a range, oldest first.
 *
 * @returns `readUpTo`: the last scanned sequence number, if the scan limit ended the page
 */
export async function listRange(
  pool: Queryable,
  range: Range,
  limit: number,
): Promise<{ readonly entries: Entry[]; readonly readUpTo: bigint | undefined }> {
  const { rows } = await pool.query<Row & { business_sequence: string | null; read_up_to: string }>(
    `with ${ENTRIES_IN_RANGE}
      select edge.read_up_to, e.business_sequence, e.kind, ${epochMs('e.logged_at')} as logged_at_ms,
        e.subject_id, t.session_id, e.pending_minor, e.available_minor, e.fees_minor
      from edge left join (entry e left ${joinTransaction('e.subject_id')} and t.business_id = $1) on true
      order by e.business_sequence`,
    [range.businessId, range.after, range.upTo, limit, range.live],
  )
  const edge = rows[0]?.read_up_to ?? undefined
  return {
    entries: rows.flatMap((row) => (row.business_sequence === null ? [] : [toEntry(row)])),
    readUpTo: edge === undefined ? undefined : BigInt(edge),
  }
}

function toEntry(row: Row): Entry {
  return {
    sequence: BigInt(row.business_sequence),
    kind: row.kind,
    bookedAtMs: row.logged_at_ms,
    subjectId: row.subject_id,
    sessionId: row.session_id ?? '',
    ...toBalance(row),
  }
}

/** The sum of the balance changes in a range. */
export async function sumRange(pool: Queryable, range: Range): Promise<Balance> {
  const { rows } = await pool.query<Row>(
    `select coalesce(sum(pending_minor), 0) as pending_minor,
        coalesce(sum(available_minor), 0) as available_minor,
        coalesce(sum(fees_minor), 0) as fees_minor
      from ${MONEY_EVENTS}
      where business_id = $1 and live = $4 and business_sequence > $2 and business_sequence <= $3`,
    [range.businessId, range.after, range.upTo, range.live],
  )
  return toBalance(rows[0] as Row)
}

/** The latest settlement or kept balance at or below a sequence number, with its balance. */
export async function findKnownBalance(
  pool: Queryable,
  { businessId, live }: BalanceKey,
  upTo: bigint,
): Promise<{ readonly sequence: bigint; readonly balance: Balance } | undefined> {
  const { rows } = await pool.query<Row & { sequence: string }>(
    `select * from (
        (select to_sequence as sequence, balance_pending_minor as pending_minor,
          balance_available_minor as available_minor, balance_fees_minor as fees_minor
        from settlement where business_id = $1 and live = $3 and to_sequence <= $2 and status = 'COMPLETED'
        order by to_sequence desc limit 1)
        union all
        (${balanceUpTo('$1', '$3', '$2')})
      ) known order by sequence desc limit 1`,
    [businessId, upTo, live],
  )
  return rows[0] && { sequence: BigInt(rows[0].sequence), balance: toBalance(rows[0]) }
}

function toBalance(row: Pick<Row, 'pending_minor' | 'available_minor' | 'fees_minor'>): Balance {
  return {
    pendingMinor: BigInt(row.pending_minor),
    availableMinor: BigInt(row.available_minor),
    feesMinor: BigInt(row.fees_minor),
  }
}
