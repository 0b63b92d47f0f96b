import { appendAudit } from '../../auth/audit/append-audit-entry.ts'
import type { Actor } from '../../auth/caller.ts'
import { DAY_MS } from '../../core/durations.ts'
import { Fault, invalidFields } from '../../core/errors.ts'
import { connectionOf } from '../connections/apply-connection.ts'
import type { EndpointWithSecrets } from '../message.ts'
import { encryptSecret, newSecret, newTextSecret } from '../sender/sign.ts'
import { type Endpoint, type Secret, SecretEntity } from './endpoint.entity.ts'
import type { EndpointContext } from './endpoint.ts'
import { lockEndpoint } from './list-endpoints.ts'

const OVERLAP_MS = DAY_MS

/** Each active secret adds a signature to every request. */
const ACTIVE_MAX = 5

interface Rotation {
  readonly endpointId: string
  /** Undefined: 24 hours. */
  readonly overlapMs: number | undefined
  /** The new text secret of a WIAXY endpoint; empty: a secret is generated. */
  readonly textSecret: string
}

/**
 * Creates a new secret. The earlier secrets also sign during the overlap, or until they expire. Requests of the WIAXY
 * profile carry one signature, so the new text secret signs only test events until `switchSecret`.
 *
 * @returns the endpoint and the new secret, which cannot be read again; empty if the caller gave it
 * @throws Fault validation_failed (a field of the other profile), not_found, too_many_secrets
 */
export async function rotateSecret(
  { database: { orm }, encrypter, clock }: EndpointContext,
  rotation: Rotation,
  actor: Actor,
): Promise<EndpointWithSecrets & { secret: string }> {
  const { endpointId, textSecret } = rotation
  const nowMs = clock.now()
  return orm.em.fork().transactional(async (em) => {
    const endpoint = await lockEndpoint(em, endpointId)
    const isWiaxy = endpoint.format.profile === 'WIAXY'
    const fault = rotationFault(rotation, isWiaxy)
    if (fault) throw invalidFields([fault])
    const generated = isWiaxy ? newTextSecret() : newSecret()
    const overlapMs = rotation.overlapMs ?? OVERLAP_MS
    const found = await loadSecrets(endpoint)
    const active = found.filter((secret) => !secret.isNext && isActive(secret, nowMs))
    if (overlapMs > 0 && active.length >= ACTIVE_MAX) {
      throw new Fault('too_many_secrets', `An endpoint has at most ${ACTIVE_MAX} active secrets`)
    }
    const endMs = nowMs + overlapMs
    for (const earlier of isWiaxy ? [] : active) {
      earlier.expiresAt = new Date(Math.min(earlier.expiresAt?.getTime() ?? endMs, endMs))
    }
    const signing = active.filter((secret) => isActive(secret, nowMs))
    // Removes expired secrets, and a text secret to which the endpoint was never switched.
    for (const secret of found) if (!signing.includes(secret)) em.remove(secret)
    const number = (found[0]?.number ?? 0) + 1
    const newest = em.create(SecretEntity, {
      endpoint,
      number,
      secretEncrypted: encryptSecret(encrypter, { endpointId, number }, textSecret || generated),
      createdAt: new Date(nowMs),
      expiresAt: null,
      isNext: isWiaxy,
    })
    await appendAudit(em, actor, {
      action: 'endpoint.rotate_secret',
      targetId: endpointId,
      businessId: endpoint.business.id,
      details: { number, ...(!isWiaxy && { overlapMs }) },
    })
    const connection = connectionOf(encrypter, endpoint)
    const secret = textSecret === '' ? generated : ''
    return { endpoint, secrets: [newest, ...signing], connection, secret }
  })
}

/** All secrets of a locked endpoint, newest first. */
async function loadSecrets({ secrets }: Endpoint): Promise<Secret[]> {
  return secrets.loadItems({ orderBy: { number: 'desc' } })
}

function isActive({ expiresAt }: Secret, nowMs: number): boolean {
  return !expiresAt || expiresAt.getTime() > nowMs
}

function rotationFault({ overlapMs, textSecret }: Rotation, isWiaxy: boolean) {
  if (!isWiaxy && textSecret !== '') {
    return { field: 'textSecret', message: 'is only for the WIAXY profile' }
  }
  if (isWiaxy && overlapMs !== undefined) {
    const message =
      'does not apply to the WIAXY profile: the new text secret signs after SwitchSecret'
    return { field: 'overlap', message }
  }
  return undefined
}

/**
 * Lets the text secret that a rotation added sign all requests of a WIAXY endpoint, in place of the previous secret.
 *
 * @throws Fault not_found, no_next_secret
 */
export async function switchSecret(
  { database: { orm }, encrypter }: EndpointContext,
  endpointId: string,
  actor: Actor,
): Promise<EndpointWithSecrets> {
  return orm.em.fork().transactional(async (em) => {
    const endpoint = await lockEndpoint(em, endpointId)
    const [next, ...earlier] = await loadSecrets(endpoint)
    if (!next?.isNext) {
      throw new Fault(
        'no_next_secret',
        'The endpoint has no new text secret; RotateSecret adds one',
      )
    }
    next.isNext = false
    for (const secret of earlier) em.remove(secret)
    await appendAudit(em, actor, {
      action: 'endpoint.switch_secret',
      targetId: endpointId,
      businessId: endpoint.business.id,
      details: { number: next.number },
    })
    return { endpoint, secrets: [next], connection: connectionOf(encrypter, endpoint) }
  })
}
