import { wrap } from '@mikro-orm/core'
import { appendAudit } from '../auth/audit/append-audit-entry.ts'
import type { Actor } from '../auth/caller.ts'
import type { Clock } from '../core/clock.ts'
import type { Database } from '../postgres/orm.ts'
import type { Key } from './key.entity.ts'
import { addKey, type IssuedKey, keyDetails, lockActiveKey } from './keys.ts'

/** How long the replaced key stays valid unless the caller states an overlap. */
const OVERLAP_MS = 24 * 3_600_000

interface KeyRotation {
  readonly keyId: string
  /** Undefined: 24 hours. */
  readonly overlapMs: number | undefined
  /** When the new key expires; undefined: never. */
  readonly expiresAt: Date | undefined
}

/**
 * Issues a key that replaces another, with the same mode, addresses and scopes. The replaced key stays
 * valid for the overlap, but never longer than before.
 *
 * @throws Fault not_found, key_inactive
 */
export async function rotateKey(
  database: Database,
  clock: Clock,
  { keyId, overlapMs = OVERLAP_MS, expiresAt }: KeyRotation,
  actor: Actor,
): Promise<IssuedKey & { readonly replaced: Key }> {
  return database.orm.em.fork().transactional(async (em) => {
    const nowMs = clock.now()
    const replaced = await lockActiveKey(em, keyId, nowMs)
    const endMs = nowMs + overlapMs
    const endsMs = Math.min(replaced.expiresAt?.getTime() ?? endMs, endMs)
    wrap(replaced).assign({ expiresAt: new Date(endsMs) })
    const { business, live, allowedCidrs, scopes } = replaced
    const requested = { businessId: business, live, allowedCidrs, scopes, expiresAt }
    const issued = addKey(em, requested, nowMs)
    await appendAudit(em, actor, {
      action: 'key.rotate',
      targetId: keyId,
      businessId: business,
      details: { overlapMs, keyId: issued.key.id, ...keyDetails(issued.key) },
    })
    return { ...issued, replaced }
  })
}
