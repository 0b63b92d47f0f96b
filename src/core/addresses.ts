import type { LookupAddress } from 'node:dns'
import { Resolver } from 'node:dns/promises'
import { open } from 'node:fs/promises'
import { isIP, type LookupFunction } from 'node:net'
import ipaddr from 'ipaddr.js'

export type Address = ipaddr.IPv4 | ipaddr.IPv6
type Range = readonly [network: Address, bits: number]

/** A set of IP addresses. */
interface AddressRanges {
  contains(address: Address): boolean
}

/**
 * Parses CIDR ranges. An IPv4 range equals its IPv6-mapped form (::ffff:10.0.0.0/104).
 *
 * @param cidrs such as "10.1.0.0/16", "fd00:1::/32"
 * @throws RangeError if a range is malformed
 */
export function addressRanges(cidrs: readonly string[]): AddressRanges {
  const ranges = cidrs.map(parseRange)
  return {
    contains: (address) =>
      ranges.some(([network, bits]) => {
        return network.kind() === address.kind() && address.match(network, bits)
      }),
  }
}

/** Returns the check whether a text is an address within some ranges. @throws RangeError if a range is malformed */
export function isWithin(cidrs: readonly string[]): (text: string) => boolean {
  const ranges = addressRanges(cidrs)
  return (text) => {
    const address = parseAddress(text)
    return address !== undefined && ranges.contains(address)
  }
}

/**
 * Whether a range is wider than the network of any organisation: IANA assigned at most a /8 of IPv4 to an organisation, and
 * the registries at most a /16 of IPv6.
 *
 * @throws RangeError if the range is malformed
 */
export function isWiderThanOneNetwork(cidr: string): boolean {
  const [network, bits] = parseRange(cidr)
  return bits < (network.kind() === 'ipv4' ? 8 : 16)
}

/**
 * @param text a zone (fe80::1%eth0) is dropped
 * @returns the IPv4 address for an IPv6-mapped address; undefined unless the text is an address
 */
export function parseAddress(text: string): Address | undefined {
  const plain = text.split('%', 1)[0] as string
  // ipaddr.js also accepts legacy forms such as "127.1"; net.isIP rejects them.
  return isIP(plain) === 0 ? undefined : ipaddr.process(plain)
}

function parseRange(cidr: string): Range {
  const [, network = ''] = /^([^/%]+)\/\d{1,3}$/.exec(cidr) ?? []
  if (isIP(network) === 0 || !ipaddr.isValidCIDR(cidr)) {
    throw new RangeError(`not a CIDR range: ${cidr}`)
  }
  const [address, bits] = ipaddr.parseCIDR(cidr)
  const isMapped = address instanceof ipaddr.IPv6 && address.isIPv4MappedAddress() && bits >= 96
  return isMapped ? [address.toIPv4Address(), bits - 96] : [address, bits]
}

/**
 * Returns the group by which an address is rate limited. An IPv4 address is its own group, also in
 * its IPv6 form. IPv6 addresses are grouped by their first 64 bits, because a client usually has a /64.
 */
export function addressGroup(text: string): string {
  if (!text.includes(':')) return text
  const address = parseAddress(text)
  if (address === undefined) return text
  if (address instanceof ipaddr.IPv4 || address.range() === 'loopback') return address.toString()
  const network = address.parts.slice(0, 4)
  if (network.every((part) => part === 0)) return '::/64'
  return `${network.map((part) => part.toString(16)).join(':')}::/64`
}

/** Whether an address group is the loopback of this machine. */
export function isLoopback(group: string): boolean {
  return group === '::1' || /^127(\.\d{1,3}){3}$/.test(group)
}

/**
 * Returns all addresses of a name, IPv4 and IPv6; at least one.
 *
 * @throws NameError
 */
export type Resolve = (hostname: string) => Promise<readonly LookupAddress[]>

/** Thrown if a name has no address, or its look-up failed. The codes are those of getaddrinfo. */
export class NameError extends Error {
  override readonly name = 'NameError'
  readonly code: 'ENOTFOUND' | 'EAI_AGAIN'

  constructor(hostname: string, code: NameError['code'], cause?: unknown) {
    super(`${hostname}: ${code}`, { cause })
    this.code = code
  }
}

interface NameResolverOptions {
  /** Nameservers as "address:port"; default: those of the system. */
  readonly servers?: readonly string[]
  readonly hostsPath?: string
  /** The most concurrent lookups. Further names are not resolved. */
  readonly lookupsMax?: number
  /** The time-out of all nameservers together. */
  readonly timeoutMs?: number
}

/** The time-out of one nameserver. Node checks its time-outs once a second, so this means 2 s. */
const SERVER_TIMEOUT_MS = 1_900

const TIMEOUT_MS = 4_000

const LOOKUPS_MAX = 256

const LOOPBACK: readonly LookupAddress[] = [
  { address: '127.0.0.1', family: 4 },
  { address: '::1', family: 6 },
]

/** Error codes of a name without an address of that family. */
const NO_ADDRESS_CODES = new Set(['ENODATA', 'ENOTFOUND'])

/**
 * Queries nameservers without occupying a thread, so that a hanging nameserver does not block other
 * names: getaddrinfo, which `dns.lookup` calls, shares four threads with everything else. Like getaddrinfo, it reads
 * the hosts file first; it does not try search domains. Concurrent callers for the same name
 * share one look-up.
 */
export function createNameResolver(options: NameResolverOptions = {}): Resolve {
  const { servers, lookupsMax = LOOKUPS_MAX, timeoutMs = TIMEOUT_MS } = options
  const hosts = createHostsFile(options.hostsPath)
  const inProgress = new Map<string, Promise<readonly LookupAddress[]>>()

  const find = async (name: string): Promise<readonly LookupAddress[]> => {
    return (await hosts(name)) ?? (await queryServers(name, servers, timeoutMs))
  }
  return async (hostname) => {
    const family = isIP(hostname)
    if (family !== 0) return [{ address: hostname, family }]
    const name = hostname.toLowerCase().replace(/\.$/, '')
    // RFC 6761: these names are always this machine.
    if (name === 'localhost' || name.endsWith('.localhost')) return LOOPBACK
    const current = inProgress.get(name)
    if (current) return current
    if (inProgress.size >= lookupsMax) throw new NameError(name, 'EAI_AGAIN')
    const lookup = find(name).finally(() => inProgress.delete(name))
    inProgress.set(name, lookup)
    return lookup
  }
}

/** Creates a look-up for `net.connect` and `tls.connect`, which try the addresses one after another. */
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

async function queryServers(
  name: string,
  servers: readonly string[] | undefined,
  timeoutMs: number,
): Promise<readonly LookupAddress[]> {
  // One resolver per look-up: a shared resolver reduces its time-out to as little as 250 ms after its
  // nameserver has responded quickly, and slower names would then fail.
  const resolver = new Resolver({ timeout: SERVER_TIMEOUT_MS, tries: 1 })
  if (servers) resolver.setServers(servers)
  const timer = setTimeout(() => resolver.cancel(), timeoutMs)
  const [ipv4, ipv6] = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)])
  clearTimeout(timer)
  const addresses = [
    ...addressesOf(ipv4).map((address) => ({ address, family: 4 })),
    ...addressesOf(ipv6).map((address) => ({ address, family: 6 })),
  ]
  if (addresses.length > 0) return addresses
  const failed = [ipv4, ipv6].find(
    (result) => result.status === 'rejected' && !hasNoAddress(result),
  )
  throw new NameError(name, failed ? 'EAI_AGAIN' : 'ENOTFOUND', failed)
}

function addressesOf(result: PromiseSettledResult<string[]>): readonly string[] {
  return result.status === 'fulfilled' ? result.value : []
}

function hasNoAddress({ reason }: PromiseRejectedResult): boolean {
  return NO_ADDRESS_CODES.has((reason as NodeJS.ErrnoException).code ?? '')
}

/** Finds the addresses of a name in the hosts file. @returns undefined if the file does not contain the name */
type FindHost = (name: string) => Promise<readonly LookupAddress[] | undefined>

type Hosts = ReadonlyMap<string, readonly LookupAddress[]>

/** The rest of a longer file is ignored. */
const BYTES_MAX = 256 * 1_024

/** How long the parsed file is cached. */
const CACHE_MS = 5_000

/**
 * Reads `/etc/hosts`, because the `extra_hosts` and `hostAliases` of containers are written there and unknown
 * to nameservers. (The npm packages for this file are for editing it.)
 */
function createHostsFile(path = '/etc/hosts'): FindHost {
  let hosts: Promise<Hosts> | undefined
  let readAtMs = 0
  return async (name) => {
    const nowMs = performance.now()
    if (hosts === undefined || nowMs - readAtMs > CACHE_MS) {
      readAtMs = nowMs
      // Without the file, no names are known.
      hosts = readBeginning(path).then(parseHosts, () => new Map())
    }
    return (await hosts).get(name)
  }
}

/** Parses the format of hosts(5): an address and its names on each line; `#` begins a comment. */
function parseHosts(text: string): Hosts {
  const hosts = new Map<string, LookupAddress[]>()
  for (const line of text.split('\n')) {
    const [address = '', ...names] = line.replace(/#.*/, '').trim().split(/\s+/)
    const family = isIP(address)
    if (family === 0) continue
    for (const name of names.map((each) => each.toLowerCase())) {
      hosts.set(name, [...(hosts.get(name) ?? []), { address, family }])
    }
  }
  return hosts
}

async function readBeginning(path: string): Promise<string> {
  await using file = await open(path)
  const { buffer, bytesRead } = await file.read(Buffer.alloc(BYTES_MAX))
  return buffer.toString('utf8', 0, bytesRead)
}
