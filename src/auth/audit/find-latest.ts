import type { Queryable } from '../../postgres/in-transaction.ts'
import type { Actor } from '../caller.ts'
import type { AuditAction } from './append-audit-entry.ts'

/** Who made a change, as the audit log states it. */
export interface AuditedActor extends Pick<Actor, 'kind' | 'id' | 'name'> {
  /** Of the entry. */
  readonly number: bigint
}

/** Returns who made the latest change of some actions to a target; undefined: there is no entry. */
export async function findLatestActor(
  on: Queryable,
  actions: readonly AuditAction[],
  targetId: string,
): Promise<AuditedActor | undefined> {
  const { rows } = await on.query<Omit<AuditedActor, 'number'> & { readonly number: string }>({
    name: 'audit-entry-latest-actor',
    text: `select number, actor_kind as kind, actor_id as id, actor_name as name from audit_entry
      where target_id = $1 and action = any ($2::text[]) order by number desc limit 1`,
    values: [targetId, actions],
  })
  const [row] = rows
  return row && { ...row, number: BigInt(row.number) }
}

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
