import type { LookupAddress } from 'node:dns'
import { Resolver } from 'node:dns/promises'
import { isIP, type LookupFunction } from 'node:net'
import { createHostsFile } from './hosts-file.ts'

/**
 * Finds all addresses of a name, IPv4 and IPv6; at least one.
 *
 * @throws NameError
 */
export type Resolve = (hostname: string) => Promise<readonly LookupAddress[]>

/** A name has no address, or nobody said so in time. The codes are those of getaddrinfo. */
export class NameError extends Error {
  override readonly name = 'NameError'
  readonly code: 'ENOTFOUND' | 'EAI_AGAIN'

  constructor(hostname: string, code: NameError['code'], cause?: unknown) {
    super(`${hostname}: ${code}`, { cause })
    this.code = code
  }
}

interface NameResolverOptions {
  /** Nameservers as "address:port"; by default those of the system. */
  readonly servers?: readonly string[]
  readonly hostsPath?: string
}

/** For each nameserver. Node looks once a second whether it has passed, so this means 2 s. */
const SERVER_TIMEOUT_MS = 1_900

/** For all nameservers together. */
const QUESTION_TIMEOUT_MS = 4_000

/** Names that are asked for at once. Beyond it, a name is not resolved. */
const QUESTIONS_MAX = 256

const LOOPBACK: readonly LookupAddress[] = [
  { address: '127.0.0.1', family: 4 },
  { address: '::1', family: 6 },
]

/** What a nameserver answers when the name has no address of that kind. */
const NONE = new Set(['ENODATA', 'ENOTFOUND'])

/**
 * Asks nameservers without taking a thread, so that a name whose nameserver hangs holds up no other:
 * the system's getaddrinfo, which `dns.lookup` calls, has four threads for everything. The hosts file
 * comes first, as it does there; search domains are not tried. Those who ask for the same name at
 * the same time share one question.
 */
export function createNameResolver(options: NameResolverOptions = {}): Resolve {
  const { servers } = options
  const hosts = createHostsFile(options.hostsPath)
  const asking = new Map<string, Promise<readonly LookupAddress[]>>()

  const find = async (name: string): Promise<readonly LookupAddress[]> => {
    return (await hosts(name)) ?? (await ask(name, servers))
  }
  return async (hostname) => {
    const family = isIP(hostname)
    if (family !== 0) return [{ address: hostname, family }]
    const name = hostname.toLowerCase().replace(/\.$/, '')
    // RFC 6761: these never leave this machine.
    if (name === 'localhost' || name.endsWith('.localhost')) return LOOPBACK
    const known = asking.get(name)
    if (known) return known
    if (asking.size >= QUESTIONS_MAX) throw new NameError(name, 'EAI_AGAIN')
    const found = find(name).finally(() => asking.delete(name))
    asking.set(name, found)
    return found
  }
}

/** What `net.connect` and `tls.connect` take. Both try the addresses one after another. */
export function createLookup(resolve: Resolve): LookupFunction {
  return (hostname, options, callback) => {
    resolve(hostname).then(
      (addresses) => {
        const [first] = addresses
        if (options.all) callback(null, [...addresses])
        else callback(null, first?.address ?? '', first?.family)
      },
      (error: NodeJS.ErrnoException) => callback(error, ''),
    )
  }
}

async function ask(
  name: string,
  servers: readonly string[] | undefined,
): Promise<readonly LookupAddress[]> {
  // One for each question: a resolver waits as little as a quarter of a second once its nameserver
  // has answered others quickly, and a name that takes longer would not be found.
  const resolver = new Resolver({ timeout: SERVER_TIMEOUT_MS, tries: 1 })
  if (servers) resolver.setServers(servers)
  const timer = setTimeout(() => resolver.cancel(), QUESTION_TIMEOUT_MS)
  const [ipv4, ipv6] = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)])
  clearTimeout(timer)
  const addresses = [
    ...addressesOf(ipv4).map((address) => ({ address, family: 4 })),
    ...addressesOf(ipv6).map((address) => ({ address, family: 6 })),
  ]
  if (addresses.length > 0) return addresses
  const failed = [ipv4, ipv6].find((answer) => answer.status === 'rejected' && !isNone(answer))
  throw new NameError(name, failed ? 'EAI_AGAIN' : 'ENOTFOUND', failed)
}

function addressesOf(answer: PromiseSettledResult<string[]>): readonly string[] {
  return answer.status === 'fulfilled' ? answer.value : []
}

function isNone({ reason }: PromiseRejectedResult): boolean {
  return NONE.has((reason as NodeJS.ErrnoException).code ?? '')
}
