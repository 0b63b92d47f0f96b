import type { EntityManager } from '@mikro-orm/postgresql'
import type { ClientBase } from 'pg'
import { assert } from '../../core/errors.ts'
import type { Actor } from '../caller.ts'

/** What is done, in the audit log: the kind of its target, and a verb. */
type AuditAction =
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
  | 'settlement.settle'
  | 'terms.update'
  | 'statement.reconcile'
  | 'token.issue'
  | 'token.revoke'
  | 'transaction.reverse'
  | 'unmatched_payment.assign'
  | 'unmatched_payment.return'

/** One administrative change, as the audit log tells it. */
interface AuditNote {
  readonly action: AuditAction
  /** The identifier of what it was done to; its kind is in the action. */
  readonly targetId: string
  /** The business it concerns; absent: none, or all. */
  readonly businessId?: string | undefined
  /** More about it, as JSON. No secrets, and nothing of customers. */
  readonly details?: Readonly<Record<string, unknown>>
}

/** The bound of `details`, as the database keeps it. */
const DETAILS_BYTES_MAX = 4_096

/** The longest value of details that are too long as a whole. */
const VALUE_BYTES_MAX = 256

const COLUMNS = `actor_kind, actor_id, actor_name, address, request_id, action, target_kind,
  target_id, business_id, details`

/**
 * Appends to the audit log, in the transaction of the change. From there to the end of the
 * transaction nobody else appends, so it comes last.
 */
export async function appendAudit(
  transaction: EntityManager | ClientBase,
  actor: Actor,
  note: AuditNote,
): Promise<void> {
  const values = toValues(actor, note)
  if ('flush' in transaction) {
    await transaction.flush()
    await transaction.execute(insert(values.map(() => '?')), values)
  } else await transaction.query(insert(values.map((_, index) => `$${index + 1}`)), values)
}

const insert = (places: readonly string[]) =>
  `insert into audit_entry (${COLUMNS}) values (${places.join(', ')})`

function toValues(actor: Actor, note: AuditNote): (string | null)[] {
  const [targetKind = ''] = note.action.split('.', 1)
  return [
    actor.kind,
    actor.id,
    actor.name,
    actor.address,
    actor.requestId,
    note.action,
    targetKind,
    note.targetId,
    note.businessId ?? null,
    toText(note.details ?? {}),
  ]
}

/** As JSON. Of values that make it too long only the length is told. */
function toText(details: Readonly<Record<string, unknown>>): string {
  const text = JSON.stringify(details)
  if (Buffer.byteLength(text) <= DETAILS_BYTES_MAX) return text
  const short = Object.entries(details).map(([name, value]) => {
    const bytes = Buffer.byteLength(JSON.stringify(value))
    return [name, bytes <= VALUE_BYTES_MAX ? value : `${bytes} bytes`] as const
  })
  const cut = JSON.stringify(Object.fromEntries(short))
  assert(Buffer.byteLength(cut) <= DETAILS_BYTES_MAX, 'an audit entry has few details')
  return cut
}
