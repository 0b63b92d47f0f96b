/**
 * Whether an error says that the database is away or has no room, rather than that a statement is
 * wrong. Such a call is worth repeating.
 *
 * SQLSTATE classes: 08 connection, 53 insufficient resources, 57P operator intervention, 25006 a
 * standby that takes no writes, 40 serialization and deadlock, 57014 statement time-out, 58 system.
 */
export function isRetryable(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const code = 'code' in error && typeof error.code === 'string' ? error.code : ''
  if (/^(08|53|57P|40|58)...?$|^25006$|^57014$/.test(code)) return true
  if (
    /^(ECONN(REFUSED|RESET|ABORTED)|EPIPE|ETIMEDOUT|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH)$/.test(code)
  ) {
    return true
  }
  return /^(Connection terminated|timeout exceeded when trying to connect|Client has encountered a connection error|Cannot use a pool after calling end)/.test(
    error.message,
  )
}
