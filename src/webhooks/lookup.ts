import type { LookupAddress } from 'node:dns'
import { lookup } from 'node:dns/promises'
import type { LookupFunction } from 'node:net'
import type { AddressGuard } from './address.ts'

/** Finds all addresses of a name. */
export type Resolve = (hostname: string) => Promise<readonly LookupAddress[]>

/** The name leads to where no webhook may go. */
export class RefusedError extends Error {
  override readonly name = 'RefusedError'
}

/** The system's resolver: it knows the hosts file and search domains too. */
export const systemResolve: Resolve = (hostname) => lookup(hostname, { all: true })

/**
 * The look-up of connections: it hands out addresses only when every one of the name's is allowed,
 * and the connection goes to one of those that were checked, so that a name cannot answer one thing
 * to the check and another to the connection.
 *
 * undici does not call it for a host that is an address already: see `urlRefusal`.
 */
export function createGuardedLookup(guard: AddressGuard, resolve: Resolve): LookupFunction {
  // The system's resolver has four threads; a name that hangs must not take more than one.
  const underWay = new Map<string, Promise<readonly LookupAddress[]>>()
  const resolveOnce = (hostname: string) => {
    const known = underWay.get(hostname)
    if (known) return known
    const found = resolve(hostname).finally(() => underWay.delete(hostname))
    underWay.set(hostname, found)
    return found
  }
  return (hostname, options, callback) => {
    resolveOnce(hostname)
      .then((addresses) => checked(addresses, guard))
      .then(
        (addresses) => {
          const [first] = addresses
          if (options.all) callback(null, [...addresses])
          else callback(null, first.address, first.family)
        },
        (error: NodeJS.ErrnoException) => callback(error, ''),
      )
  }
}

function checked(addresses: readonly LookupAddress[], guard: AddressGuard) {
  for (const { address } of addresses) {
    const refusal = guard.refusal(address)
    if (refusal) throw new RefusedError(`refused: resolves to ${refusal}`)
  }
  const [first, ...others] = addresses
  if (!first) throw new RefusedError('refused: resolves to no address')
  return [first, ...others] as const
}
