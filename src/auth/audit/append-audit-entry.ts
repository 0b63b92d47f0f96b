import type { EntityManager } from '@mikro-orm/postgresql'
import type { ClientBase } from 'pg'
import { assert } from '../../core/errors.ts'
import type { Actor } from '../caller.ts'

/** The action of an audit entry: the kind of its target, and a verb. */
export type AuditAction =
  | 'account.close'
  | 'account.resolve'
  | 'business.create'
  | 'business.update'
  | 'delivery.redeliver'
  | 'endpoint.create'
  | 'endpoint.delete'
  | 'endpoint.recover'
  | 'endpoint.rotate_secret'
  | 'endpoint.test'
  | 'endpoint.update'
  | 'epoch.bump'
  | 'holiday.add'
  | 'holiday.remove'
  | 'key.issue'
  | 'key.revoke'
  | 'key.rotate'
  | 'key.update'
  | 'setting.change'
  | 'settlement.settle'
  | 'terms.update'
  | 'statement.reconcile'
  | 'token.issue'
  | 'token.revoke'
  | 'transaction.reverse'
  | 'unmatched_payment.assign'
  | 'unmatched_payment.return'

/** One administrative change, as the audit log records it. */
interface AuditChange {
  readonly action: AuditAction
  /** The id of the target. The action names its kind. */
  readonly targetId: string
  /** The business that the change concerns; absent: none, or all. */
  readonly businessId?: string | undefined
  /** More about the change, as JSON. No secrets and no customer data. */
  readonly details?: Readonly<Record<string, unknown>>
}

/** The largest `details`, as a check constraint of the database enforces it. */
const DETAILS_BYTES_MAX = 4_096

/** The longest value that is kept when `details` as a whole is too long. */
const VALUE_BYTES_MAX = 256

const COLUMNS = `actor_kind, actor_id, actor_name, address, request_id, action, target_kind,
  target_id, business_id, details`

/**
 * Appends to the audit log, in the transaction of the change. It locks the log against other
 * appends until the transaction ends, so call it last.
 */
export async function appendAudit(
  transaction: EntityManager | ClientBase,
  actor: Actor,
  change: AuditChange,
): Promise<void> {
  const values = toValues(actor, change)
  if ('flush' in transaction) {
    await transaction.flush()
    await transaction.execute(insert(values.map(() => '?')), values)
  } else await transaction.query(insert(values.map((_, index) => `$${index + 1}`)), values)
}

const insert = (parameters: readonly string[]) =>
  `insert into audit_entry (${COLUMNS}) values (${parameters.join(', ')})`

function toValues(actor: Actor, change: AuditChange): (string | null)[] {
  const [targetKind = ''] = change.action.split('.', 1)
  return [
    actor.kind,
    actor.id,
    actor.name,
    actor.address,
    actor.requestId,
    change.action,
    targetKind,
    change.targetId,
    change.businessId ?? null,
    toJson(change.details ?? {}),
  ]
}

/** Returns `details` as JSON. If it is too long, long values are replaced by their length. */
function toJson(details: Readonly<Record<string, unknown>>): string {
  const text = JSON.stringify(details)
  if (Buffer.byteLength(text) <= DETAILS_BYTES_MAX) return text
  const shortened = Object.entries(details).map(([name, value]) => {
    const bytes = Buffer.byteLength(JSON.stringify(value))
    return [name, bytes <= VALUE_BYTES_MAX ? value : `${bytes} bytes`] as const
  })
  const cut = JSON.stringify(Object.fromEntries(shortened))
  assert(Buffer.byteLength(cut) <= DETAILS_BYTES_MAX, 'the shortened details of an audit entry fit')
  return cut
}
