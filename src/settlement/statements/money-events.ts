/** How the columns of an event are called where it is: in the log, or as a line kept of it. */
interface Names {
  /** business_id, live, business_sequence, logged_at */
  readonly line: string
  /** kind, subject_id, occurred_at, pending_minor, available_minor, fees_minor */
  readonly event: string
}

interface Wanted {
  /** The condition on an event. */
  readonly where: (names: Names) => string
  /** Further tables that the condition looks at. */
  readonly join?: (names: Names) => string
  readonly order: 'asc' | 'desc'
  /** SQL: a number or a parameter. */
  readonly limit: string
}

/**
 * The first of the events that did something to balances, as a subquery with the columns of the
 * view `money_event`. It reads no more than it returns: through the view, which has no order of its
 * own, PostgreSQL would sort all of a business's events for the first of them.
 */
export function moneyEvents({ where, join = () => '', order, limit }: Wanted): string {
  const part = ({ line, event }: Names, from: string, also: string) =>
    `(select ${line}.business_id, ${line}.live, ${line}.business_sequence, ${event}.kind, ${event}.subject_id,
        ${event}.occurred_at, ${line}.logged_at, ${event}.pending_minor, ${event}.available_minor,
        ${event}.fees_minor
      from ${from} ${join({ line, event })}
      where ${where({ line, event })}${also}
      order by ${line}.business_sequence ${order} limit ${limit})`
  return `(select * from (
      ${part({ line: 'k', event: 'k' }, 'archived_entry k', '')}
      union all
      ${part(
        { line: 'l', event: 'o' },
        'event_log l join outbox o on o.seq = l.outbox_seq',
        ' and (o.pending_minor, o.available_minor, o.fees_minor) <> (0, 0, 0)',
      )}
    ) either order by business_sequence ${order} limit ${limit})`
}

/**
 * The first payment of a business and mode after a number that waits for settlement.
 *
 * @param businessId SQL, as are the others
 */
export function firstWaiting(
  businessId: string,
  live: string,
  after: string,
  upTo?: string,
): string {
  return moneyEvents({
    join: ({ event }) => `join transaction t on t.id = ${event}.subject_id`,
    where: ({ line, event }) => `${line}.business_id = ${businessId} and ${line}.live = ${live}
      and ${line}.business_sequence > ${after}
      ${upTo === undefined ? '' : `and ${line}.business_sequence <= ${upTo}`}
      and ${event}.kind = 'PAYMENT_NOTIFICATION' and t.status = 'SUCCESS' and t.settled_at is null`,
    order: 'asc',
    limit: '1',
  })
}
