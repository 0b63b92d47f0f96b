import { epochMs } from '../../postgres/epoch-ms.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'
import { findLogged, joinOutbox } from '../log.sql.ts'

/** An event, as a search shows it. */
interface FoundEvent {
  readonly id: string
  readonly kind: string
  /** Empty: no business's. */
  readonly businessId: string
  readonly live: boolean
  readonly position: bigint
  readonly occurredAtMs: number
}

/** @returns undefined if it is not in the log, or has expired */
export async function findEvent(on: Queryable, id: string): Promise<FoundEvent | undefined> {
  const { rows } = await on.query<Omit<FoundEvent, 'position'> & { readonly position: string }>({
    name: 'event-log-find',
    text: `with ${findLogged('$1')}
      select l.event_id as id, o.kind, l.business_id as "businessId", l.live, l.position,
        ${epochMs('o.occurred_at')} as "occurredAtMs"
      from logged l ${joinOutbox('l.outbox_seq')}`,
    values: [id],
  })
  const [row] = rows
  return row && { ...row, position: BigInt(row.position) }
}
