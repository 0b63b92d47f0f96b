import { findBusinessNames } from '../../businesses/find-names.ts'
import { invalidFields } from '../../core/errors.ts'
import type { Queryable } from '../../postgres/in-transaction.ts'
import { faultsOf, type ShareNames, type Split } from './split.ts'

/** A split as a caller requests it. */
export interface RequestedSplit {
  /** Without recipients: the owner keeps everything. */
  readonly split: Split
  readonly names: ShareNames
  /** The businesses that the caller may name; undefined: all. */
  readonly allowed: ReadonlySet<string> | undefined
}

/**
 * Checks a requested split. A business that the caller may not name is refused like one that does not exist.
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
  const known = await findBusinessNames(client, ids)
  const unknown = ids.flatMap((id, index) => {
    if (known.has(id) && (allowed?.has(id) ?? true)) return []
    const field = `split.recipients[${index}].businessId`
    return [{ field, message: 'is not a known business' }]
  })
  if (unknown.length > 0) throw invalidFields(unknown)
  return split
}
