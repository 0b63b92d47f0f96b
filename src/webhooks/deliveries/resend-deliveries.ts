import type { EntityManager } from '@mikro-orm/postgresql'
import type { Pool } from 'pg'

/** Which deliveries of an endpoint are sent again, and how many by one statement. */
interface Part {
  readonly endpointId: string
  /** When they are made due. Milliseconds since the Unix epoch. */
  readonly nowMs: number
  /** Only those made at this time or later. */
  readonly sinceMs: number
  readonly rowsMax: number
}

/** What makes a delivery due at a time, its schedule begun anew. The fence ends any claim. */
const anew = (
  dueAt: string,
) => `state = 'PENDING', due_at = ${dueAt}, completed_at = null, failure = null,
  schedule_from = attempts, leased_until = null, claims = d.claims + 1`

/** What waits for a retry, and is not under way. */
const waits = (now: string) =>
  `d.due_at > ${now} and (d.leased_until is null or d.leased_until <= ${now})`

const EVENT_KEPT = `exists (select from event_log l join outbox o on o.seq = l.outbox_seq
  where l.position = d.position)`

/** Makes a delivery due, whatever its state, when its event is kept. @returns whether it did */
export async function makeDue(em: EntityManager, id: string, nowMs: number): Promise<boolean> {
  const now = new Date(nowMs)
  const made = await em.execute<{ id: string }[]>(
    `update webhook_delivery d set ${anew('?')}
      where d.id = ? and (d.state <> 'PENDING' or ${waits('?')}) and ${EVENT_KEPT} returning d.id`,
    [now, id, now, now],
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
        select id from webhook_delivery d
        where endpoint_id = $1 and state = 'PENDING' and ${waits('$2')} and created_at >= $3
        order by due_at limit $4
      )
      update webhook_delivery d set ${anew('$2')}
      where d.id = any(array(select id from page)) and d.state = 'PENDING' and ${waits('$2')}`,
    values: [part.endpointId, new Date(part.nowMs), new Date(part.sinceMs), part.rowsMax],
  })
  return result.rowCount ?? 0
}
