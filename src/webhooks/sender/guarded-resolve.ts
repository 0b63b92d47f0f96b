import type { Resolve } from '../../net/name-resolver.ts'
import type { AddressGuard } from './address-guard.ts'

/** The name leads to where no webhook may go. */
export class RefusedError extends Error {
  override readonly name = 'RefusedError'
}

/**
 * Resolves names of which every address is allowed. A connection goes to one of those that were
 * checked, so that a name cannot answer one thing to the check and another to the connection.
 *
 * It is not asked for a host that is an address already: see `urlRefusal`.
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
