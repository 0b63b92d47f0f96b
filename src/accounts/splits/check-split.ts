import { findBusinessNames } from '../../businesses/find-names.ts'
import { invalidFields } from '../../core/errors.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'
import { findApproved } from './approvals.ts'
import { faultsOf, type ShareNames, type Split } from './split.ts'

/** A split as a caller requests it. */
export interface RequestedSplit {
  /** Without recipients: the owner keeps everything. */
  readonly split: Split
  readonly names: ShareNames
  /** The businesses that the caller may name without an operator's approval; undefined: all. */
  readonly allowed: ReadonlySet<string> | undefined
}

/**
 * Of callers who need an operator's approval for each recipient, beforehand. If a split waited for its approval instead,
 * the response would show a key which businesses exist.
 */
export const NEEDS_APPROVAL: ReadonlySet<string> = new Set()

/**
 * Checks a requested split. A business that the caller may not name is refused like one that does not exist, and
 * is not even looked up.
 *
 * @returns undefined if it has no recipients
 * @throws Fault validation_failed
 */
export async function checkSplit(
  client: Queryable,
  ownerId: string,
  requested: RequestedSplit | undefined,
): Promise<Split | undefined> {
  if (requested === undefined || requested.split.recipients.length === 0) return undefined
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
  if (refused.length > 0) throw invalidFields(refused)
  return split
}
