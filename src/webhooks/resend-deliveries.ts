import type { EntityManager } from '@mikro-orm/postgresql'
import type { Pool } from 'pg'

/** When something is made due. Milliseconds since the Unix epoch. */
interface Moment {
  readonly nowMs: number
  /** What is due until then may be under way, and is due soon in any case: it is left alone. */
  readonly underWayUntilMs: number
}

/** Which deliveries of an endpoint are sent again, and how many by one statement. */
interface Part extends Moment {
  readonly endpointId: string
  /** Only those made at this time or later. */
  readonly sinceMs: number
  readonly rowsMax: number
}

/** What makes a delivery due at a time, its schedule begun anew. The fence ends any claim. */
const anew = (
  dueAt: string,
) => `state = 'PENDING', due_at = ${dueAt}, completed_at = null, failure = null,
  schedule_from = attempts, fence = d.fence + 1`

const EVENT_KEPT = `exists (select from event_log l join outbox o on o.seq = l.outbox_seq
  where l.position = d.position)`

/** Makes a delivery due, whatever its state, when its event is kept. @returns whether it did */
export async function makeDue(em: EntityManager, id: string, moment: Moment): Promise<boolean> {
  const made = await em.execute<{ id: string }[]>(
    `update webhook_delivery d set ${anew('?')}
      where d.id = ? and (d.state <> 'PENDING' or d.due_at > ?) and ${EVENT_KEPT} returning d.id`,
    [new Date(moment.nowMs), id, new Date(moment.underWayUntilMs)],
  )
  return made.length > 0
}

/**
 * Makes the next deliveries due that were given up.
 *
 * @param after the position after which to go on; '0' at first
 * @returns how many, and the position to go on after; undefined when there are no more
 */
export async function recoverFailed(
  pool: Pool,
  part: Part,
  after: string,
): Promise<{ recovered: number; last: string | undefined }> {
  const result = await pool.query<{ recovered: number; looked: number; last: string | null }>({
    name: 'webhook-recover-failed',
    text: `with page as (
        select id, position from webhook_delivery
        where endpoint_id = $1 and state = 'FAILED' and position > $4 and created_at >= $3
        order by position limit $5
      ), made_due as (
        update webhook_delivery d set ${anew('$2')}
        where d.id = any(array(select id from page)) and d.state = 'FAILED' and ${EVENT_KEPT}
        returning 1
      )
      select (select count(*)::int from made_due) as recovered,
        (select count(*)::int from page) as looked, (select max(position) from page) as last`,
    values: [part.endpointId, new Date(part.nowMs), new Date(part.sinceMs), after, part.rowsMax],
  })
  const { recovered = 0, looked = 0, last = null } = result.rows[0] ?? {}
  return { recovered, last: looked < part.rowsMax ? undefined : (last ?? undefined) }
}

/**
 * Makes the next deliveries due that wait for a retry; they are no longer among them then.
 *
 * @returns how many; fewer than asked for when there are no more
 */
export async function hastenWaiting(pool: Pool, part: Part): Promise<number> {
  const result = await pool.query({
    name: 'webhook-hasten-waiting',
    text: `with page as (
        select id from webhook_delivery
        where endpoint_id = $1 and state = 'PENDING' and due_at > $4 and created_at >= $3
        order by due_at limit $5
      )
      update webhook_delivery d set ${anew('$2')}
      where d.id = any(array(select id from page)) and d.state = 'PENDING' and d.due_at > $4`,
    values: [
      part.endpointId,
      new Date(part.nowMs),
      new Date(part.sinceMs),
      new Date(part.underWayUntilMs),
      part.rowsMax,
    ],
  })
  return result.rowCount ?? 0
}
