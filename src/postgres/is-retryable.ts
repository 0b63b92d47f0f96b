const AWAY =
  /^(Connection terminated|timeout exceeded when trying to connect|timeout expired|Query read timeout|SASL: |Client has encountered a connection error|Client was closed|Cannot use a pool after calling end)/

/**
 * Whether an error means that the database is unavailable or out of resources, so that the call may
 * succeed when it is repeated. Errors of the statement itself are not retryable.
 *
 * SQLSTATE classes: 08 connection, 28 authentication, 53 insufficient resources, 57P operator
 * intervention, 25006 a read-only standby, 40 serialization and deadlock, 55P03 lock time-out, 57014
 * statement time-out, 58 system.
 */
export function isRetryable(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const code = 'code' in error && typeof error.code === 'string' ? error.code : ''
  if (/^(08|28|53|57P|40|58)...?$|^(25006|55P03|57014)$/.test(code)) return true
  if (
    /^(ECONN(REFUSED|RESET|ABORTED)|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH)$/.test(
      code,
    )
  ) {
    return true
  }
  return AWAY.test(error.message)
}

/** Whether a query missed the deadline of the driver, whose error has no code. */
export function isDeadline(error: unknown): boolean {
  return error instanceof Error && error.message === 'Query read timeout'
}

/** Whether the database cancelled a statement because of a deadlock. */
export function isDeadlock(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === '40P01'
}

/** The text for an error that means that the database does not exist; undefined for other errors. */
export function missingDatabase(error: unknown): string | undefined {
  const { code, message } = error as { code?: unknown; message?: string }
  // SQLSTATE invalid_catalog_name
  if (code !== '3D000') return undefined
  const name = /database "[^"]*"/.exec(message ?? '')?.[0] ?? 'the database'
  return `${name} does not exist on that server: correct the name, or create it`
}
