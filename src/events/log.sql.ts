/** SQL: joins `o`, the kind, subject and payload of a logged event, by its `outbox_seq`. */
export const joinOutbox = (seq: string) => `join outbox o on o.seq = ${seq}`

/** SQL: the same, looked up one by one. */
export const lookUpOutbox = (seq: string) =>
  `cross join lateral (select * from outbox where seq = ${seq} offset 0) o`

/** SQL to select from: the logged events, as `l` (position, id and business) and `o`. */
export const EVENTS = `event_log l ${joinOutbox('l.outbox_seq')}`

/** SQL: the CTE `logged`, the event of an id in the log, found once. */
export const findLogged = (eventId: string) =>
  `logged as materialized (select * from event_log where event_id = ${eventId})`

/** SQL: joins the event at a position, as `l` and `o`: null once its partition was dropped. */
export const leftJoinEvent = (position: string) =>
  `left join event_log l on l.position = ${position} left ${joinOutbox('l.outbox_seq')}`

/** SQL: the position of the last event that has expired. */
export const FLOOR = '(select floor from event_retention where id = 1)'

/** SQL: the first events after a position, in order. */
export const selectEventsAfter = (position: string, limit: string) =>
  `select position, outbox_seq, business_id, live, business_sequence from event_log
    where position > ${position} order by position limit ${limit}`

/** SQL: the events after a position, up to another one. They are few: no order is needed, and no limit. */
export const selectEventsBetween = (after: string, upTo: string) =>
  `select position, outbox_seq, business_id, live from event_log
    where position > ${after} and position <= ${upTo}`
