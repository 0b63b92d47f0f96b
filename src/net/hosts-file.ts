import type { LookupAddress } from 'node:dns'
import { open } from 'node:fs/promises'
import { isIP } from 'node:net'

/** Finds the addresses of a name in the hosts file. @returns undefined if it has none */
export type FindHost = (name: string) => Promise<readonly LookupAddress[] | undefined>

type Hosts = ReadonlyMap<string, readonly LookupAddress[]>

/** The rest of a longer file is ignored. */
const BYTES_MAX = 256 * 1_024

/** How long the parsed file is cached. */
const CACHE_MS = 5_000

/**
 * Reads `/etc/hosts`: `extra_hosts` and `hostAliases` of containers are written there and unknown
 * to nameservers. (The npm packages for this file are made for editing it.)
 */
export function createHostsFile(path = '/etc/hosts'): FindHost {
  let hosts: Promise<Hosts> | undefined
  let readAtMs = 0
  return async (name) => {
    const nowMs = performance.now()
    if (hosts === undefined || nowMs - readAtMs > CACHE_MS) {
      readAtMs = nowMs
      // Without the file there are no such names.
      hosts = readBeginning(path).then(parseHosts, () => new Map())
    }
    return (await hosts).get(name)
  }
}

/** hosts(5): an address and its names; `#` begins a comment. */
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
