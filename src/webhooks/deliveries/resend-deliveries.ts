import type { EntityManager } from '@mikro-orm/postgresql'
import type { Pool } from 'pg'
import { EVENTS } from '../../events/log.sql.ts'
import { lowerOrderedFrom } from '../ordered/claim-ordered.ts'
import { type DeliveryKey, inCte } from './delivery-keys.ts'

/** Which deliveries of an endpoint are sent again, and how many per statement. */
interface Selection {
  readonly endpointId: string
  /** When they become due. Milliseconds since the Unix epoch. */
  readonly nowMs: number
  /** Only deliveries created at this time or later. */
  readonly sinceMs: number
  readonly rowsMax: number
}

/** Makes a delivery due and restarts its retry schedule. Raising the fence ends any claim. */
const restart = (
  dueAt: string,
) => `state = 'PENDING', due_at = ${dueAt}, completed_at = null, failure = null,
  schedule_from = attempts, leased_until = null, claims = d.claims + 1`

/** The delivery waits for a retry and has no attempt in progress. */
const waitsForRetry = (now: string) =>
  `d.due_at > ${now} and (d.leased_until is null or d.leased_until <= ${now})`

const EVENT_KEPT = `exists (select from ${EVENTS} where l.position = d.position)`

/** Makes a delivery due in any state, if its event is kept. @returns whether it did */
export async function makeDue(
  em: EntityManager,
  { id, position }: DeliveryKey,
  nowMs: number,
): Promise<boolean> {
  const now = new Date(nowMs)
  const updated = await em.execute<{ endpoint_id: string }[]>(
    `update webhook_delivery d set ${restart('?')}
      where d.id = ? and d.position = ? and (d.state <> 'PENDING' or ${waitsForRetry('?')}) and ${EVENT_KEPT}
      returning d.endpoint_id`,
    [now, id, position, now, now],
  )
  const endpointId = updated[0]?.endpoint_id
  if (endpointId === undefined) return false
  await em.execute(lowerOrderedFrom('select ?::text as endpoint_id, ?::int8 as first'), [
    endpointId,
    position,
  ])
  return true
}

/**
 * Makes the next failed deliveries due.
 *
 * @param after the position to continue after; '0' at first
 * @returns the number made due, and the position to continue after; undefined at the end
 */
export async function recoverFailed(
  pool: Pool,
  selection: Selection,
  after: string,
): Promise<{ recovered: number; last: string | undefined }> {
  const result = await pool.query<{ recovered: number; scanned: number; last: string | null }>({
    name: 'webhook-recover-failed',
    text: `with page as (
        select id, position from webhook_delivery
        where endpoint_id = $1 and state = 'FAILED' and position > $4 and created_at >= $3
        order by position limit $5
      ), made_due as (
        update webhook_delivery d set ${restart('$2')}
        where ${inCte('page', 'd')} and d.state = 'FAILED' and ${EVENT_KEPT}
        returning d.position
      ), lowered as (
        ${lowerOrderedFrom('select $1 as endpoint_id, min(position) as first from made_due')}
      )
      select (select count(*)::int from made_due) as recovered,
        (select count(*)::int from page) as scanned, (select max(position) from page) as last`,
    values: [
      selection.endpointId,
      new Date(selection.nowMs),
      new Date(selection.sinceMs),
      after,
      selection.rowsMax,
    ],
  })
  const { recovered = 0, scanned = 0, last = null } = result.rows[0] ?? {}
  return { recovered, last: scanned < selection.rowsMax ? undefined : (last ?? undefined) }
}

/**
 * Makes the next deliveries due that wait for a retry. Each call finds others, because a delivery
 * made due no longer waits. One that was claimed meanwhile is scanned, but not made due.
 *
 * @returns the number made due, and whether there may be more
 */
export async function recoverWaiting(
  pool: Pool,
  selection: Selection,
): Promise<{ recovered: number; more: boolean }> {
  const result = await pool.query<{ recovered: number; scanned: number }>({
    name: 'webhook-recover-waiting',
    text: `with page as (
        select id, position from webhook_delivery d
        where endpoint_id = $1 and state = 'PENDING' and ${waitsForRetry('$2')} and created_at >= $3
        order by due_at limit $4
      ), made_due as (
        update webhook_delivery d set ${restart('$2')}
        where ${inCte('page', 'd')} and d.state = 'PENDING'
          and ${waitsForRetry('$2')}
        returning 1
      )
      select (select count(*)::int from made_due) as recovered,
        (select count(*)::int from page) as scanned`,
    values: [
      selection.endpointId,
      new Date(selection.nowMs),
      new Date(selection.sinceMs),
      selection.rowsMax,
    ],
  })
  const { recovered = 0, scanned = 0 } = result.rows[0] ?? {}
  return { recovered, more: scanned === selection.rowsMax }
}
