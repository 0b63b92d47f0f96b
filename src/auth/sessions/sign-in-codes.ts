import { assert, Fault } from '../../core/errors.ts'
import { newId } from '../../core/ids.ts'
import type { Runtime } from '../../postgres/runtime.ts'
import { appendAudit } from '../audit/append-audit-entry.ts'
import { SignInCodeEntity } from '../auth.entity.ts'
import { type Actor, BOOTSTRAP, type InternalCaller } from '../caller.ts'
import { newSecret, proofOf } from '../token-secret.ts'

/** How long a code can be used. */
export const SIGN_IN_CODE_TTL_MS = 15 * 60_000

/** A code that was created. */
interface SignInCode {
  /** The path to open at the address of the HTTP server. */
  readonly urlPath: string
  readonly expiresAtMs: number
}

/**
 * Creates a code that signs a browser in once, with the rights of the caller's token.
 *
 * @param adminToken ADMIN_TOKEN; undefined: not set
 * @throws Fault permission_denied if the caller has a certificate, or a session: a session could outlive itself by the code
 */
export async function createSignInCode(
  { database, clock }: Pick<Runtime, 'database' | 'clock'>,
  adminToken: string | undefined,
  caller: InternalCaller,
  actor: Actor,
): Promise<SignInCode> {
  const { tokenId, name, scopes, businessIds } = caller
  const bootstrap = tokenId === BOOTSTRAP
  if (caller.session !== undefined || !(bootstrap || tokenId.startsWith('tok_'))) {
    throw new Fault('permission_denied', 'Only a caller with a token of its own may create a code')
  }
  assert(!bootstrap || adminToken !== undefined, 'only a token that is set authenticates')
  const nowMs = clock.now()
  const id = newId('sic', nowMs)
  const { secret, secretHash } = newSecret('sic', id)
  const expiresAtMs = nowMs + SIGN_IN_CODE_TTL_MS
  await database.orm.em.fork().transactional(async (em) => {
    em.create(SignInCodeEntity, {
      id,
      callerId: tokenId,
      name,
      secretHash,
      scopes: [...scopes],
      businessIds: businessIds ? [...businessIds] : null,
      proof: bootstrap && adminToken !== undefined ? proofOf(secret, adminToken) : null,
      createdAt: new Date(nowMs),
      expiresAt: new Date(expiresAtMs),
      callerExpiresAt: caller.expiresAtMs === undefined ? null : new Date(caller.expiresAtMs),
    })
    await appendAudit(em, actor, {
      action: 'sign_in_code.create',
      targetId: id,
      businessId: businessIds?.size === 1 ? [...businessIds][0] : undefined,
      details: { name, scopes: [...scopes] },
    })
  })
  return { urlPath: signInPath(secret), expiresAtMs }
}

/** The path that signs in with a code. The code is in the fragment, which browsers do not send, so no log contains it. */
export function signInPath(code: string): string {
  return `/console/sign-in#${code}`
}
