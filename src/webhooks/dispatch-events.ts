import type { Pool } from 'pg'

/**
 * Makes the deliveries of the next events of the log and moves the dispatcher past them, all in
 * one statement. While another instance is at it, it does nothing.
 *
 * The row lock is what makes it safe, also when this statement's snapshot is older than the
 * position that it then reads: positions are committed in order, so such a snapshot sees no event
 * past that position.
 *
 * @param idPrefix of the new deliveries' ids, the time in it
 * @returns how many events there were and how many deliveries came of them
 */
export async function dispatchEvents(
  pool: Pool,
  options: { idPrefix: string; nowMs: number; eventsMax: number },
): Promise<{ events: number; deliveries: number }> {
  const result = await pool.query<{ events: number; deliveries: number }>({
    name: 'webhook-dispatch',
    text: `with dispatcher as (
        select position from webhook_dispatcher where id = 1 for update skip locked
      ), next as (
        select position, outbox_seq, business_id, live from event_log
        where position > (select position from dispatcher) order by position limit $1
      ), made as (
        insert into webhook_delivery
          (id, endpoint_id, position, state, attempts, due_at, fence, created_at)
        select $2 || substr(replace(gen_random_uuid()::text, '-', ''), 17), e.id, n.position,
          'PENDING', 0, $3, 0, $3
        from next n
        join outbox o on o.seq = n.outbox_seq
        join webhook_endpoint e on e.business_id = n.business_id and e.live = n.live
          and e.deleted_at is null and e.after_position < n.position
          and case
            -- A test is for its endpoint alone; what tells of an endpoint is for all the others.
            when o.kind = 'ENDPOINT_TEST' then o.subject_id = e.id
            when o.subject_id = e.id then false
            when e.kinds = '{}' then o.kind <> 'ACCOUNT_CREATED'
            else o.kind = any(e.kinds) end
        on conflict (endpoint_id, position) do nothing
        returning 1
      ), moved as (
        update webhook_dispatcher set position = (select max(position) from next)
        where id = 1 and exists (select from next)
      )
      select (select count(*)::int from next) as events,
        (select count(*)::int from made) as deliveries`,
    values: [options.eventsMax, options.idPrefix, new Date(options.nowMs)],
  })
  return result.rows[0] ?? { events: 0, deliveries: 0 }
}
