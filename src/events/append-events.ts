/** What each column of the outbox gets: an SQL expression. */
interface EventColumns {
  readonly kind: string
  readonly event_id?: string
  readonly business_id?: string
  readonly live?: string
  readonly occurred_at?: string
  readonly payload?: string
  /** Absent: it has none. */
  readonly subject_id?: string
  /** Absent: it moves no money. */
  readonly pending_minor?: string
  readonly available_minor?: string
  readonly fees_minor?: string
}

/** Columns of the source, where nothing else is said. */
const USUAL: EventColumns = {
  event_id: 'event_id',
  business_id: 'business_id',
  live: 'live',
  kind: '',
  occurred_at: 'created_at',
  payload: 'payload',
}

/**
 * The one statement that appends events to the outbox: alone, or as a part of the statement that
 * writes what they tell of.
 *
 * @param source of the rows, from `from` on; empty: one row, of constants and parameters
 */
export function appendEvents(columns: EventColumns, source = ''): string {
  const all = { ...USUAL, ...columns }
  const [names, values] = [Object.keys(all), Object.values(all)]
  return `insert into outbox (${names.join(', ')}) select ${values.join(', ')} ${source}`
}
