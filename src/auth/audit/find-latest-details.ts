import type { Queryable } from '../../postgres/in-transaction.ts'
import type { AuditAction } from './append-audit-entry.ts'

/** Returns the details, as JSON, of the latest entry with an action and a target. */
export async function findLatestDetails(
  client: Queryable,
  action: AuditAction,
  targetId: string,
): Promise<string | undefined> {
  const { rows } = await client.query<{ details: string }>({
    name: 'audit-entry-latest',
    text: `select details from audit_entry where target_id = $1 and action = $2
      order by number desc limit 1`,
    values: [targetId, action],
  })
  return rows[0]?.details
}
