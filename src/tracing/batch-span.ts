import type { Span } from './tracing.ts'

/** A statement that writes a batch. */
interface BatchStatement {
  /** The table that the batch is about. */
  readonly table: string
  readonly operation: 'INSERT' | 'UPDATE'
}

/**
 * Begins the span of a statement that several calls share. It links all of them, and is a step of the first, so that
 * the trace of a call that is alone in its batch shows everything.
 *
 * @param spans of the calls
 * @returns undefined unless a call is recorded
 */
export function batchSpan(
  { operation, table }: BatchStatement,
  spans: readonly (Span | undefined)[],
): Span | undefined {
  const first = spans.find((span) => span?.isRecorded)
  return first?.child(`${operation} ${table}`, {
    kind: 'client',
    links: spans.flatMap((span) => (span?.isRecorded ? span.context : [])),
    attributes: {
      'db.system.name': 'postgresql',
      'db.operation.name': operation,
      'db.collection.name': table,
      'db.operation.batch.size': spans.length,
    },
  })
}
