import type { Resolve } from '../../net/name-resolver.ts'
import type { AddressGuard } from './address-guard.ts'

/** The name resolves to an address to which no webhook may be sent. */
export class RefusedError extends Error {
  override readonly name = 'RefusedError'
}

/**
 * Resolves a name only if every one of its addresses is allowed. The connection goes to one of the
 * checked addresses, so a name cannot resolve differently for the check and for the connection.
 *
 * It is not called for a host that is already an address: see `urlRefusal`.
 */
export function createGuardedResolve(guard: AddressGuard, resolve: Resolve): Resolve {
  return async (hostname) => {
    const addresses = await resolve(hostname)
    for (const { address } of addresses) {
      const refusal = guard.refusal(address)
      if (refusal) throw new RefusedError(`refused: resolves to ${refusal}`)
    }
    if (addresses.length === 0) throw new RefusedError('refused: resolves to no address')
    return addresses
  }
}
