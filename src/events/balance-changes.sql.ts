import { boundedScan } from '../postgres/bounded-scan.ts'
import { lookUpOutbox } from './log.sql.ts'

/**
 * SQL: whether an event `l` of the log has no archived entry yet. Its row remains until its partition is
 * dropped, and must not be counted twice.
 */
const IS_LOGGED = 'l.position > (select archived from event_retention where id = 1)'

/** SQL: whether an event `o` moved money. */
export const MOVES_MONEY =
  '((o.pending_minor, o.available_minor, o.fees_minor) <> (0, 0, 0) or o.nets_zero)'

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
 * A subquery for the first events that moved money, with the columns of the view
 * `money_event`. It reads only the rows it returns, and looks their contents up one by one: a plan
 * from statistics that are behind would read the whole outbox. The view has no order of its own:
 * through it, PostgreSQL would sort all events of a business to find the first.
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
        `event_log l ${lookUpOutbox('l.outbox_seq')}`,
        ` and ${MOVES_MONEY} and ${IS_LOGGED}`,
      )}
    ) events order by business_sequence ${order} limit ${limit})`
}

/**
 * SQL that keeps the partitions of events until the transaction ends. A transaction with one snapshot for several
 * statements runs it first: dropped partitions are gone from old snapshots too.
 */
export const KEEP_EVENTS = 'lock table only event_log, only outbox in access share mode'

/** SQL: all events `e` that moved money, in no order; their columns are those of the view. */
export const MONEY_EVENTS = 'money_event e'

/** SQL: the keys `c` of all balances that have events: business_id and live, in no order, and repeated. */
export const BALANCE_KEYS = 'event_business_counter c'

/**
 * SQL: the sums of the numbered events of a balance, and its last sequence number: business_id, live,
 * last_sequence, pending_minor, available_minor and fees_minor.
 *
 * @param businessId an SQL expression, like `live`
 */
export function newestBalance(businessId: string, live: string): string {
  return `select * from event_business_counter where business_id = ${businessId} and live = ${live}
    order by last_sequence desc limit 1`
}

/**
 * SQL: the sums of the numbered events of every balance after a key, in the order of the keys, as
 * `newestBalance` has them. Each key is found in the index from the one before.
 *
 * @param businessId an SQL expression, like `live`
 */
export function newestBalances(businessId: string, live: string): string {
  const next = (key: string) => `select business_id, live from event_business_counter
    where (business_id, live) > (${key}) order by business_id, live limit 1`
  return `with recursive key as (
      (${next(`${businessId}, ${live}`)})
      union all
      select n.* from key k cross join lateral (${next('k.business_id, k.live')}) n
    )
    select b.* from key k cross join lateral (${newestBalance('k.business_id', 'k.live')}) b`
}

/** Whether an event of a transaction that the sequencer has seen already has a sequence number. */
const IS_NUMBERED = `(o.seq <= state.base_seq or state.target is not null
  and o.seq <= state.done_seq and pg_visible_in_snapshot(o.xid, state.target))`

/**
 * Two subqueries for `with`. `state` is one row about the sequencer:
 * `is_current` is false after a restore into another cluster, until all restored events are
 * numbered. `committed` has
 * the balance changes of all committed events of a business and mode: pending_minor,
 * available_minor and fees_minor, in one row for those that the sequencer has numbered, and one row
 * for each of the others, which are those of the last milliseconds.
 *
 * @param businessId an SQL expression, like `live`
 */
export function committedChanges(businessId: string, live: string): string {
  return `${SEQUENCER_STATE}, committed as (
        select pending_minor, available_minor, fees_minor from (${newestBalance(businessId, live)}) b
        union all
        ${unnumberedEvents('o.pending_minor, o.available_minor, o.fees_minor', businessId, live)}
      )`
}

/** A subquery `state` for `with`, as `committedChanges` has it. */
export const SEQUENCER_STATE = `state as materialized (
        select s.snapshot, s.target, s.done_seq, s.base_seq, s.low_seq, s.restored_seq is null
          and s.system_identifier = c.system_identifier as is_current
        from sequencer s cross join pg_control_system() c
      )`

/**
 * SQL for the committed events `o` of a business and mode that have no sequence number yet. It reads
 * the subquery `state`.
 */
export function unnumberedEvents(columns: string, businessId: string, live: string): string {
  const part = (xids: string) =>
    `select ${columns} from outbox o, state
        where o.seq > (select low_seq from state) and o.xid ${xids} and o.xid < pg_snapshot_xmax(pg_current_snapshot()) and o.business_id = ${businessId} and o.live = ${live} and not ${IS_NUMBERED}`
  return `${part('>= (select pg_snapshot_xmax(snapshot) from state)')}
        union all
        ${part('= any (array(select pg_snapshot_xip(snapshot) from state))')}`
}

/**
 * A subquery for the next events of a business and mode, with their content: `payload`, `event_id` and
 * `own_business_id`, the business that the content names, are null once the event has expired.
 *
 * @param businessId an SQL expression, like all other parameters
 */
export function eventsWithContent(
  businessId: string,
  live: string,
  after: string,
  limit: string,
): string {
  const range = (log: string, condition = '') =>
    `where ${log}.business_id = ${businessId} and ${log}.live = ${live}
        and ${log}.business_sequence > ${after}${condition} order by ${log}.business_sequence limit ${limit}`
  return `(select * from (
      (select a.business_sequence, a.kind, a.subject_id, a.pending_minor, a.available_minor, a.fees_minor,
        null::text as event_id, null::text as own_business_id, null::boolean as own_live, null::bytea as payload
      from archived_entry a ${range('a')})
      union all
      (select l.business_sequence, o.kind, o.subject_id, o.pending_minor, o.available_minor, o.fees_minor,
        l.event_id, o.business_id, o.live, o.payload
      from event_log l left join outbox o on o.seq = l.outbox_seq and o.event_id = l.event_id ${range('l', ` and ${IS_LOGGED}`)})
    ) events order by business_sequence limit ${limit})`
}

/** How many events one page scans, including those that moved no money, such as new accounts. */
const EVENTS_MAX = 1_000

const ENTRY_COLUMNS =
  'business_sequence, kind, subject_id, logged_at, pending_minor, available_minor, fees_minor'

/**
 * Subqueries for `with`. `entry` has the first events of a range that moved money, in order:
 * business_sequence, kind, subject_id, logged_at, pending_minor, available_minor and fees_minor.
 * `edge` is that of `boundedScan`. Parameters: $1 the business, $2 after this sequence number, $3 up
 * to this one, $4 the limit, $5 the mode.
 */
export const ENTRIES_IN_RANGE = `${boundedScan({
  from: 'event_log l join outbox o on o.seq = l.outbox_seq',
  table: 'event_log l',
  columns: `l.business_sequence, o.kind, o.subject_id, l.logged_at, o.pending_minor,
    o.available_minor, o.fees_minor, ${MOVES_MONEY} as moves_money`,
  key: 'business_sequence',
  order: 'asc',
  range: `l.business_id = $1 and l.live = $5 and l.business_sequence > $2 and l.business_sequence <= $3 and ${IS_LOGGED}`,
  filter: 'moves_money',
  limit: '$4',
  rowsMax: EVENTS_MAX,
})}, archived as (
    select ${ENTRY_COLUMNS} from archived_entry where business_id = $1 and live = $5 and business_sequence > $2 and business_sequence <= $3 order by business_sequence limit $4
  ), entry as (
    select * from archived union all select ${ENTRY_COLUMNS} from page order by business_sequence limit $4
  )`

/**
 * SQL: the last kept sums of a balance at or below a sequence number: business_sequence, pending_minor,
 * available_minor and fees_minor.
 *
 * @param businessId an SQL expression, like all other parameters
 */
export function balanceUpTo(businessId: string, live: string, upTo: string): string {
  return `select last_sequence as business_sequence, pending_minor, available_minor, fees_minor
    from event_business_counter
    where business_id = ${businessId} and live = ${live} and last_sequence <= ${upTo}
    order by last_sequence desc limit 1`
}
