import { appendAudit } from '../../auth/audit/append-audit-entry.ts'
import type { Actor } from '../../auth/caller.ts'
import { Fault } from '../../core/errors.ts'
import { connectionOf } from '../connections/apply-connection.ts'
import type { EndpointWithSecrets } from '../message.ts'
import { SecretEntity } from './endpoint.entity.ts'
import type { EndpointContext } from './endpoint-context.ts'
import { lockEndpoint } from './find-endpoint.ts'
import { activeSecrets } from './list-endpoints.ts'
import { encryptSecret, newSecret } from './signing-secret.ts'

const OVERLAP_MS = 24 * 3_600_000

/** Each active secret adds a signature to every request. */
const ACTIVE_MAX = 5

/**
 * Creates a new secret. The earlier ones also sign during the overlap, or until they expire.
 *
 * @param requestedMs the overlap; undefined: 24 hours
 * @returns the endpoint and the new secret, which cannot be read again
 * @throws Fault not_found, too_many_secrets
 */
export async function rotateSecret(
  { orm, encrypter, clock }: EndpointContext,
  endpointId: string,
  requestedMs: number | undefined,
  actor: Actor,
): Promise<EndpointWithSecrets & { secret: string }> {
  const nowMs = clock.now()
  const overlapMs = requestedMs ?? OVERLAP_MS
  const secret = newSecret()
  const rotated = await orm.em.fork().transactional(async (em) => {
    const endpoint = await lockEndpoint(em, endpointId)
    const active = await activeSecrets(em, [endpointId], nowMs)
    if (overlapMs > 0 && active.length >= ACTIVE_MAX) {
      throw new Fault('too_many_secrets', `An endpoint has at most ${ACTIVE_MAX} active secrets`)
    }
    const endMs = nowMs + overlapMs
    for (const earlier of active) {
      earlier.expiresAt = new Date(Math.min(earlier.expiresAt?.getTime() ?? endMs, endMs))
    }
    await em.flush()
    // Expired secrets are of no further use.
    await em.nativeDelete(SecretEntity, {
      endpoint: endpointId,
      expiresAt: { $lte: new Date(nowMs) },
    })
    const number = (active[0]?.number ?? 0) + 1
    const newest = em.create(SecretEntity, {
      endpoint: endpointId,
      number,
      secretEncrypted: encryptSecret(encrypter, { endpointId, number }, secret),
      createdAt: new Date(nowMs),
      expiresAt: null,
    })
    await appendAudit(em, actor, {
      action: 'endpoint.rotate_secret',
      targetId: endpointId,
      businessId: endpoint.business,
      details: { number, overlapMs },
    })
    const signing = active.filter((earlier) => Number(earlier.expiresAt) > nowMs)
    const connection = connectionOf(encrypter, endpoint)
    return { endpoint, secrets: [newest, ...signing], connection }
  })
  return { ...rotated, secret }
}
