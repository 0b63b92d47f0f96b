import type { Pool } from 'pg'

/**
 * Gives up deliveries that nobody will make: those of endpoints that were removed, and those that
 * were held for long enough for endpoints that are disabled.
 *
 * @returns how many
 */
export async function giveUpHeld(
  pool: Pool,
  options: { readonly nowMs: number; readonly heldSinceMs: number; readonly rowsMax: number },
): Promise<number> {
  // What is due in the future waits for a retry: its time has not come.
  const result = await pool.query({
    name: 'webhook-give-up-held',
    text: `with dead as (
        select id, deleted_at is not null as removed from webhook_endpoint
        where deleted_at is not null or disabled_at < $2
      ), held as (
        select d.id, case when e.removed then 'the endpoint was removed'
          else 'the endpoint was disabled for longer than retries last' end as failure
        from dead e cross join lateral (
          select id from webhook_delivery
          where endpoint_id = e.id and state = 'PENDING'
            and due_at < case when e.removed then $1::timestamptz else $2::timestamptz end
            and (leased_until is null or leased_until <= $1)
          order by due_at limit $3 for update skip locked
        ) d limit $3
      )
      update webhook_delivery d set state = 'FAILED', completed_at = $1, failure = h.failure,
        claims = d.claims + 1
      from held h where d.id = h.id and d.state = 'PENDING'`,
    values: [new Date(options.nowMs), new Date(options.heldSinceMs), options.rowsMax],
  })
  return result.rowCount ?? 0
}

/**
 * Deletes the next old deliveries with their attempts. Ids rise with time, so that a run walks over
 * the old ones once, in the order of the primary key; those completed late are kept until a later
 * run, and those that are pending always.
 *
 * @param options ids after `after` and before `beforeId`, completed before `beforeMs`
 * @returns how many, and the id to go on after; undefined when there are no more
 */
export async function deleteOldDeliveries(
  pool: Pool,
  options: {
    readonly after: string
    readonly beforeId: string
    readonly beforeMs: number
    readonly rowsMax: number
  },
): Promise<{ deleted: number; last: string | undefined }> {
  const result = await pool.query<{ deleted: number; looked: number; last: string | null }>({
    name: 'webhook-delete-deliveries',
    text: `with page as (
        select id from webhook_delivery where id > $1 and id < $2 order by id limit $4
      ), old as (
        select id from webhook_delivery
        where id = any(array(select id from page)) and state <> 'PENDING' and completed_at < $3
        for update skip locked
      ), attempts as (
        delete from webhook_attempt where delivery_id = any(array(select id from old))
      ), deliveries as (
        delete from webhook_delivery where id = any(array(select id from old)) returning 1
      )
      select (select count(*)::int from deliveries) as deleted,
        (select count(*)::int from page) as looked, (select max(id) from page) as last`,
    values: [options.after, options.beforeId, new Date(options.beforeMs), options.rowsMax],
  })
  const { deleted = 0, looked = 0, last = null } = result.rows[0] ?? {}
  return { deleted, last: looked < options.rowsMax ? undefined : (last ?? undefined) }
}

/** Deletes endpoints that were removed long ago and that no delivery names any more. */
export async function deleteRemovedEndpoints(pool: Pool, beforeMs: number): Promise<void> {
  await pool.query({
    name: 'webhook-delete-endpoints',
    text: `with old as (
        select id from webhook_endpoint e where deleted_at < $1
          and not exists (select from webhook_delivery where endpoint_id = e.id)
        limit 1000 for update skip locked
      ), secrets as (
        delete from webhook_secret where endpoint_id = any(array(select id from old))
      )
      delete from webhook_endpoint where id = any(array(select id from old))`,
    values: [new Date(beforeMs)],
  })
}
