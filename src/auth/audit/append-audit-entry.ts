import type { EntityManager } from '@mikro-orm/postgresql'
import type { ClientBase } from 'pg'
import { assert, Fault } from '../../core/errors.ts'
import { bigintArray, byteaArray } from '../../postgres/binary-arrays.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'
import { queryableOf } from '../../postgres/queries-of.ts'
import type { Actor } from '../caller.ts'
import { auditHash, entryText, headText, isAuthenticHead } from './audit-hash.ts'

/** The action of an audit entry: the kind of its target, and a verb. */
export type AuditAction =
  | 'account.close'
  | 'account.import'
  | 'account.resolve'
  | 'account.set_split'
  | 'account.update'
  | 'account.attach_identity'
  | 'business.create'
  | 'business.update'
  | 'delivery.redeliver'
  | 'delivery.skip'
  | 'endpoint.create'
  | 'endpoint.delete'
  | 'endpoint.recover'
  | 'endpoint.rehearse'
  | 'endpoint.rotate_secret'
  | 'endpoint.switch_secret'
  | 'endpoint.test'
  | 'endpoint.update'
  | 'epoch.bump'
  | 'holiday.add'
  | 'holiday.remove'
  | 'key.import'
  | 'key.issue'
  | 'key.revoke'
  | 'key.rotate'
  | 'key.update'
  | 'master_key.rotate'
  | 'notification.resolve'
  | 'notification.retry'
  | 'notification.show'
  | 'payment_conflict.resolve'
  | 'payout.approve'
  | 'payout.cancel'
  | 'payout.reject'
  | 'payout.resolve'
  | 'payout_discrepancy.resolve'
  | 'payout_policy.update'
  | 'payout_statement.reconcile'
  | 'payouts.pause'
  | 'payouts.resume'
  | 'portal_link.create'
  | 'portal_link.revoke'
  | 'review_item.update'
  | 'session.revoke'
  | 'session.sign_in'
  | 'session.sign_out'
  | 'setting.change'
  | 'settlement.settle'
  | 'terms.update'
  | 'sign_in_code.create'
  | 'split_recipient.approve'
  | 'split_recipient.revoke'
  | 'statement.reconcile'
  | 'token.issue'
  | 'token.revoke'
  | 'transaction.accept'
  | 'transaction.complete_return'
  | 'transaction.import'
  | 'transaction.return'
  | 'transaction.reverse'
  | 'unmatched_payment.assign'
  | 'unmatched_payment.refund'
  | 'unmatched_payment.return'

/** One administrative change, as the audit log records it. */
interface AuditChange {
  readonly action: AuditAction
  /** The id of the target. The action names its kind. */
  readonly targetId: string
  /** The business that the change concerns; absent: none, or all. */
  readonly businessId?: string | undefined
  /** More about the change, as JSON, without what is undefined. No secrets and no customer data. */
  readonly details?: Readonly<Record<string, unknown>>
}

/** The largest `details`; a check constraint of the database enforces the same limit. */
const DETAILS_BYTES_MAX = 4_096

/** The longest value that is kept when `details` as a whole is too long. */
const VALUE_BYTES_MAX = 256

/**
 * Appends to the audit log, in the transaction of the change. It locks the log against other
 * appends until the transaction ends, so call it last.
 *
 * The entry and the new head get MACs. Their hash is computed here from the appended values, so the database cannot change
 * it. If the head was changed since the previous append, the entry gets no MAC: a MAC would also authenticate the changes to
 * the entries before it.
 *
 * @throws Fault unavailable if another instance uses a master key that this instance does not know yet
 */
export async function appendAudit(
  transaction: EntityManager | ClientBase,
  actor: Actor,
  change: AuditChange,
): Promise<void> {
  if ('flush' in transaction) await transaction.flush()
  const on = 'flush' in transaction ? queryableOf(transaction) : transaction
  await appendAudits(on, [{ actor, change }])
}

/** A change and who made it. */
interface Audited {
  readonly actor: Actor
  readonly change: AuditChange
}

/** Appends several entries in their order, as `appendAudit` does. */
export async function appendAudits(
  on: Queryable,
  [first, ...rest]: readonly [Audited, ...Audited[]],
): Promise<void> {
  const { auditKeys } = first.actor
  const entries = [first, ...rest].map(({ actor, change }) => toEntry(actor, change))
  // A trigger locks the head, and sets the number, the time and the hash of the previous entry.
  const { rows: appended } = await on.query<Inserted>({
    name: 'audit-append',
    text: `insert into audit_entry (actor_kind, actor_id, actor_name, address, request_id, action,
        target_kind, target_id, business_id, details)
      select actor_kind, actor_id, actor_name, address, request_id, action, target_kind, target_id,
        nullif(business_id, ''), details
      from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
          $9::text[], $10::text[])
        with ordinality as entry (actor_kind, actor_id, actor_name, address, request_id, action, target_kind,
          target_id, business_id, details, position)
      order by position
      returning number::text, round(date_part('epoch', at) * 1000) as "atMs",
        encode(previous_hash, 'hex') as "previousHash"`,
    values: [
      entries.map((entry) => entry.actorKind),
      entries.map((entry) => entry.actorId),
      entries.map((entry) => entry.actorName),
      entries.map((entry) => entry.address),
      entries.map((entry) => entry.requestId),
      entries.map((entry) => entry.action),
      entries.map((entry) => entry.targetKind),
      entries.map((entry) => entry.targetId),
      entries.map((entry) => entry.businessId),
      entries.map((entry) => entry.details),
    ],
  })
  // The MAC still belongs to the head before the insert: the trigger changes only its number and hash.
  const { rows: heads } = await on.query<{ mac: Buffer }>({
    name: 'audit-head-mac',
    text: 'select mac from audit_head where id = 1',
  })
  const [[inserted], [previous]] = [appended, heads]
  assert(inserted && previous, 'an insert returns its row, and the head always exists')
  if (previous.mac.length > 0 && !auditKeys.knowsKeyOf(previous.mac)) throw keyUnknown()
  let number = BigInt(inserted.number) - 1n
  let hash = inserted.previousHash
  let isAuthentic = isAuthenticHead(auditKeys, { number, hash, mac: previous.mac })
  const macs = appended.map((row, at) => {
    isAuthentic &&= row.previousHash === hash
    number = BigInt(row.number)
    hash = auditHash({ ...(entries[at] as (typeof entries)[number]), ...row, number })
    return { number, mac: isAuthentic ? auditKeys.mac(entryText(number, hash)) : null }
  })
  await on.query({
    name: 'audit-mac',
    text: `with entry as (
        insert into audit_mac (number, mac)
        select * from unnest($1::bigint[], $2::bytea[]) as m (number, mac) where mac is not null
      )
      update audit_head set mac = $3 where id = 1`,
    values: [
      bigintArray(macs.map((entry) => entry.number)),
      byteaArray(macs.map(({ mac }) => mac)),
      auditKeys.mac(headText(number, hash)),
    ],
  })
}

/** Without the key of its MAC, it is not known whether the head was changed. */
function keyUnknown(): Fault {
  return new Fault('unavailable', 'The master key is being rotated; repeat the request', {
    retryAfterSeconds: 10,
    cause: new Error('the MAC of the audit head is under a master key that is not known here'),
  })
}

interface Inserted {
  readonly number: string
  readonly atMs: number
  readonly previousHash: string
}

function toEntry(actor: Actor, change: AuditChange) {
  const [targetKind = ''] = change.action.split('.', 1)
  return {
    actorKind: actor.kind,
    actorId: actor.id,
    actorName: actor.name,
    address: actor.address,
    requestId: actor.requestId,
    action: change.action,
    targetKind,
    targetId: change.targetId,
    businessId: change.businessId ?? '',
    details: toJson(change.details ?? {}),
  }
}

/** Returns `details` as JSON. If it is too long, long values are replaced by their length. */
function toJson(details: Readonly<Record<string, unknown>>): string {
  const text = JSON.stringify(details)
  if (Buffer.byteLength(text) <= DETAILS_BYTES_MAX) return text
  // The entries of the text have no undefined values.
  const kept: Readonly<Record<string, unknown>> = JSON.parse(text)
  const shortened = Object.entries(kept).map(([name, value]) => {
    const bytes = Buffer.byteLength(JSON.stringify(value))
    return [name, bytes <= VALUE_BYTES_MAX ? value : `${bytes} bytes`] as const
  })
  const cut = JSON.stringify(Object.fromEntries(shortened))
  assert(Buffer.byteLength(cut) <= DETAILS_BYTES_MAX, 'the shortened details of an audit entry fit')
  return cut
}
