/** Table aliases for the columns of an event, in the event log or in the archive. */
interface Aliases {
  /** For business_id, live, business_sequence and logged_at. */
  readonly log: string
  /** For kind, subject_id, occurred_at, pending_minor, available_minor and fees_minor. */
  readonly event: string
}

interface MoneyEventQuery {
  /** The condition on an event. */
  readonly where: (aliases: Aliases) => string
  /** Further tables that the condition needs. */
  readonly join?: (aliases: Aliases) => string
  readonly order: 'asc' | 'desc'
  /** SQL: a number or a parameter. */
  readonly limit: string
}

/**
 * A subquery for the first events that changed a balance, with the columns of the view
 * `money_event`. It reads only the rows it returns. The view has no order of its own: through it,
 * PostgreSQL would sort all events of a business to find the first.
 */
export function moneyEvents({ where, join = () => '', order, limit }: MoneyEventQuery): string {
  const part = ({ log, event }: Aliases, from: string, filter: string) =>
    `(select ${log}.business_id, ${log}.live, ${log}.business_sequence, ${event}.kind, ${event}.subject_id,
        ${event}.occurred_at, ${log}.logged_at, ${event}.pending_minor, ${event}.available_minor,
        ${event}.fees_minor
      from ${from} ${join({ log, event })}
      where ${where({ log, event })}${filter}
      order by ${log}.business_sequence ${order} limit ${limit})`
  return `(select * from (
      ${part({ log: 'a', event: 'a' }, 'archived_entry a', '')}
      union all
      ${part(
        { log: 'l', event: 'o' },
        'event_log l join outbox o on o.seq = l.outbox_seq',
        ' and (o.pending_minor, o.available_minor, o.fees_minor) <> (0, 0, 0)',
      )}
    ) events order by business_sequence ${order} limit ${limit})`
}

/**
 * A subquery for the first unsettled payment of a business and mode after a sequence number.
 *
 * @param businessId an SQL expression, like all other parameters
 */
export function firstUnsettled(
  businessId: string,
  live: string,
  after: string,
  upTo?: string,
): string {
  return moneyEvents({
    join: ({ event }) => `join transaction t on t.id = ${event}.subject_id`,
    where: ({ log, event }) => `${log}.business_id = ${businessId} and ${log}.live = ${live}
      and ${log}.business_sequence > ${after}
      ${upTo === undefined ? '' : `and ${log}.business_sequence <= ${upTo}`}
      and ${event}.kind = 'PAYMENT_NOTIFICATION' and t.status = 'SUCCESS' and t.settled_at is null`,
    order: 'asc',
    limit: '1',
  })
}
