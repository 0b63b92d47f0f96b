import { UniqueConstraintViolationException } from '@mikro-orm/core'
import { appendAudit } from '../../auth/audit/append-audit-entry.ts'
import type { Actor } from '../../auth/caller.ts'
import { findBusiness, findBusinessNames } from '../../businesses/get-business.ts'
import type { Clock } from '../../core/clock.ts'
import { type Fault, invalidFields } from '../../core/errors.ts'
import { textArray } from '../../postgres/binary-arrays.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'
import type { Database } from '../../postgres/orm.ts'
import { cutPage, type Page } from '../../postgres/page-token.ts'
import { queryableOf } from '../../postgres/queries-of.ts'
import { type Approval, SplitApprovalEntity } from './split.entity.ts'
import { faultsOf, type ShareNames, type Split } from './split.ts'

/** A business, and another business that may get shares of its payments. */
interface RecipientKey {
  readonly businessId: string
  readonly recipientId: string
}

/**
 * Approves a recipient. A repeated call returns the first approval.
 *
 * @throws Fault not_found (the business), validation_failed (the recipient)
 */
export async function approveRecipient(
  { orm }: Database,
  clock: Clock,
  { businessId, recipientId }: RecipientKey,
  actor: Actor,
): Promise<Approval> {
  const key = { business: businessId, recipient: recipientId }
  const approved = orm.em.fork().transactional(async (em) => {
    await findBusiness(em, businessId)
    if (businessId === recipientId) throw refusedRecipient('must be another business')
    const known = await findBusinessNames(queryableOf(em), [recipientId])
    if (!known.has(recipientId)) throw refusedRecipient('is not a known business')
    const approval = em.create(SplitApprovalEntity, { ...key, approvedAt: new Date(clock.now()) })
    const action = 'split_recipient.approve'
    await appendAudit(em, actor, { action, targetId: recipientId, businessId })
    return approval
  })
  return approved.catch((error: unknown) => {
    if (!(error instanceof UniqueConstraintViolationException)) throw error
    return orm.em.fork().findOneOrFail(SplitApprovalEntity, key)
  })
}

function refusedRecipient(message: string) {
  return invalidFields([{ field: 'recipientId', message }])
}

/** Revokes the approval of a recipient, if there is one. Splits that name the recipient stay until they are changed. */
export async function revokeRecipient(
  { orm }: Database,
  { businessId, recipientId }: RecipientKey,
  actor: Actor,
): Promise<void> {
  await orm.em.fork().transactional(async (em) => {
    const key = { business: businessId, recipient: recipientId }
    if ((await em.nativeDelete(SplitApprovalEntity, key)) === 0) return
    const action = 'split_recipient.revoke'
    await appendAudit(em, actor, { action, targetId: recipientId, businessId })
  })
}

/** One page of the approved recipients of a business, in the order of their ids. */
export async function listRecipients({ orm }: Database, businessId: string, page: Page) {
  const after = page.after?.[0]
  const found = await orm.em
    .fork()
    .find(
      SplitApprovalEntity,
      { business: businessId, ...(after !== undefined && { recipient: { $gt: after } }) },
      { orderBy: { recipient: 'asc' }, limit: page.limit + 1 },
    )
  return cutPage(found, page, ({ recipient }) => [recipient.id])
}

/** Finds the businesses that are approved as recipients of another business. */
async function findApproved(
  client: Queryable,
  businessId: string,
  recipientIds: readonly string[],
): Promise<ReadonlySet<string>> {
  const { rows } = await client.query<{ recipient_id: string }>({
    name: 'split-approved',
    text: `select recipient_id from split_approval
      where business_id = $1 and recipient_id = any ($2::text[])`,
    values: [businessId, textArray(recipientIds)],
  })
  return new Set(rows.map(({ recipient_id }) => recipient_id))
}

/** A split as a caller requests it. */
export interface RequestedSplit {
  /** Without recipients: the owner keeps everything. */
  readonly split: Split
  readonly names: ShareNames
  /** The businesses that the caller may name without an operator's approval; undefined: all. */
  readonly allowed: ReadonlySet<string> | undefined
}

/**
 * For callers who need an operator's approval for each recipient beforehand. If a split waited for its approval instead,
 * the response would reveal to the caller which businesses exist.
 */
export const NEEDS_APPROVAL: ReadonlySet<string> = new Set()

/** A split that is valid by itself. */
interface CheckedSplit {
  /** Undefined: it has no recipients. */
  readonly split: Split | undefined
  /** Set if the caller may not name one of the recipients, or not any more. */
  readonly refusal: Fault | undefined
}

/**
 * Checks a requested split. A business that the caller may not name is refused like a business that does not exist, and is
 * not even looked up.
 *
 * @throws Fault validation_failed if the split is not valid by itself
 */
export async function checkRecipients(
  client: Queryable,
  ownerId: string,
  requested: RequestedSplit | undefined,
): Promise<CheckedSplit> {
  if (requested === undefined || requested.split.recipients.length === 0) {
    return { split: undefined, refusal: undefined }
  }
  const { split, names, allowed } = requested
  const faults = faultsOf(split, ownerId, names)
  if (faults.length > 0) throw invalidFields(faults)
  const ids = split.recipients.map(({ businessId }) => businessId)
  const nameable = ids.filter((id) => allowed?.has(id) ?? true)
  const known = await findBusinessNames(client, nameable)
  const approved = await findApproved(client, ownerId, ids)
  const message = allowed ? 'is not an approved recipient' : 'is not a known business'
  const refused = ids.flatMap((id, index) => {
    if (known.has(id) || approved.has(id)) return []
    return [{ field: `split.recipients[${index}].businessId`, message }]
  })
  return { split, refusal: refused.length > 0 ? invalidFields(refused) : undefined }
}

/**
 * Checks a split that is set now: see `checkRecipients`.
 *
 * @returns undefined if it has no recipients
 * @throws Fault validation_failed
 */
export async function checkSplit(
  client: Queryable,
  ownerId: string,
  requested: RequestedSplit | undefined,
): Promise<Split | undefined> {
  const { split, refusal } = await checkRecipients(client, ownerId, requested)
  if (refusal !== undefined) throw refusal
  return split
}
