import { wrap } from '@mikro-orm/core'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import type { Clock } from '../core/clock.ts'
import type { Database } from '../postgres/orm.ts'
import type { Key } from './key.entity.ts'
import { addKey, factsOf, type IssuedKey, lockActiveKey } from './keys.ts'

/** How long a key works on beside the one in its place, when the caller does not say. */
const OVERLAP_MS = 24 * 3_600_000

interface RoundRobin {
  readonly keyId: string
  /** Undefined: 24 hours. */
  readonly overlapMs: number | undefined
  /** When the new key ends; undefined: never. */
  readonly expiresAt: Date | undefined
}

/**
 * Issues a key in the place of another: of the same mode, for the same addresses. The other one
 * works on for the overlap, and never longer than it would have.
 *
 * @throws Fault not_found, key_inactive
 */
export async function rotateKey(
  database: Database,
  clock: Clock,
  { keyId, overlapMs = OVERLAP_MS, expiresAt }: RoundRobin,
  actor: Actor,
): Promise<IssuedKey & { readonly replaced: Key }> {
  return database.orm.em.fork().transactional(async (em) => {
    const nowMs = clock.now()
    const replaced = await lockActiveKey(em, keyId, nowMs)
    const endMs = nowMs + overlapMs
    const endsMs = Math.min(replaced.expiresAt?.getTime() ?? endMs, endMs)
    wrap(replaced).assign({ expiresAt: new Date(endsMs) })
    const { business, live, allowedCidrs } = replaced
    const wanted = { businessId: business, live, allowedCidrs, expiresAt }
    const issued = addKey(em, wanted, nowMs)
    await appendAudit(em, actor, {
      action: 'key.rotate',
      targetId: keyId,
      businessId: business,
      details: { overlapMs, keyId: issued.key.id, ...factsOf(issued.key) },
    })
    return { ...issued, replaced }
  })
}
