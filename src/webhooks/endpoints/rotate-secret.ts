import { appendAudit } from '../../auth/audit/append-audit-entry.ts'
import type { Actor } from '../../auth/caller.ts'
import { Fault } from '../../core/errors.ts'
import type { ShownEndpoint } from '../message.ts'
import { SecretEntity } from './endpoint.entity.ts'
import type { EndpointContext } from './endpoint-context.ts'
import { lockEndpoint } from './find-endpoint.ts'
import { liveSecrets } from './list-endpoints.ts'
import { encryptSecret, newSecret } from './signing-secret.ts'

const OVERLAP_MS = 24 * 3_600_000

/** Each live secret adds a signature to every request. */
const LIVE_MAX = 5

/**
 * Makes a new secret. The earlier ones sign beside it for the overlap, or until they expire.
 *
 * @param wantedMs the overlap; undefined: 24 hours
 * @returns the secret, which cannot be had again
 * @throws Fault not_found, too_many_secrets
 */
export async function rotateSecret(
  { orm, encrypter, clock }: EndpointContext,
  endpointId: string,
  wantedMs: number | undefined,
  actor: Actor,
): Promise<ShownEndpoint & { secret: string }> {
  const nowMs = clock.now()
  const overlapMs = wantedMs ?? OVERLAP_MS
  const secret = newSecret()
  const rotated = await orm.em.fork().transactional(async (em) => {
    const endpoint = await lockEndpoint(em, endpointId)
    const live = await liveSecrets(em, [endpointId], nowMs)
    if (overlapMs > 0 && live.length >= LIVE_MAX) {
      throw new Fault('too_many_secrets', `An endpoint has at most ${LIVE_MAX} live secrets`)
    }
    const endMs = nowMs + overlapMs
    for (const earlier of live) {
      earlier.expiresAt = new Date(Math.min(earlier.expiresAt?.getTime() ?? endMs, endMs))
    }
    await em.flush()
    // Those that sign no longer are of no use to anybody.
    await em.nativeDelete(SecretEntity, {
      endpoint: endpointId,
      expiresAt: { $lte: new Date(nowMs) },
    })
    const newest = em.create(SecretEntity, {
      endpoint: endpointId,
      number: (live[0]?.number ?? 0) + 1,
      sealed: encryptSecret(encrypter, endpointId, secret),
      createdAt: new Date(nowMs),
      expiresAt: null,
    })
    await appendAudit(em, actor, {
      action: 'endpoint.rotate_secret',
      targetId: endpointId,
      businessId: endpoint.business,
      details: { number: newest.number, overlapMs },
    })
    const signing = live.filter((earlier) => Number(earlier.expiresAt) > nowMs)
    return { endpoint, secrets: [newest, ...signing] }
  })
  return { ...rotated, secret }
}
