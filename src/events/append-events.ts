/** An SQL expression for each column of the outbox. */
interface EventColumns {
  readonly kind: string
  readonly event_id?: string
  readonly business_id?: string
  readonly live?: string
  readonly occurred_at?: string
  readonly payload?: string
  /** Absent: the event has no subject. */
  readonly subject_id?: string
  /** Absent: the event changes no balance. */
  readonly pending_minor?: string
  readonly available_minor?: string
  readonly fees_minor?: string
  /** Absent: the event moves no money if its changes are zero. */
  readonly nets_zero?: string
}

/** By default a column is taken from the column of the source with this name. */
const DEFAULT_COLUMNS: EventColumns = {
  event_id: 'event_id',
  business_id: 'business_id',
  live: 'live',
  kind: '',
  occurred_at: 'created_at',
  payload: 'payload',
}

/**
 * The SQL that appends events to the outbox: a statement of its own, or a part of the statement
 * that writes the change that the events report. All events are written by it.
 *
 * @param source the source of the rows: SQL that begins with `from`; empty: one row of constants
 * and parameters
 */
export function appendEvents(columns: EventColumns, source = ''): string {
  const all = { ...DEFAULT_COLUMNS, ...columns }
  const [names, values] = [Object.keys(all), Object.values(all)]
  return `insert into outbox (${names.join(', ')}) select ${values.join(', ')} ${source}`
}
