import { type Actor, BOOTSTRAP } from '../../auth/caller.ts'
import { createSignInCode } from '../../auth/sessions/sign-in-codes.ts'
import { systemClock } from '../../core/clock.ts'
import type { Database } from '../../postgres/orm.ts'

/**
 * Returns the URL that signs a browser of this machine in as ADMIN_TOKEN, once.
 *
 * @param system the service, as the audit log records it
 */
export async function createStartLink(
  database: Database,
  adminToken: string,
  httpUrl: string,
  system: Actor,
): Promise<string> {
  const caller = {
    kind: 'internal',
    tokenId: BOOTSTRAP,
    name: BOOTSTRAP,
    scopes: new Set(['admin'] as const),
  } as const
  const dependencies = { database, clock: systemClock, adminToken }
  const { urlPath } = await createSignInCode(dependencies, caller, system)
  return `${httpUrl}${urlPath}`
}
