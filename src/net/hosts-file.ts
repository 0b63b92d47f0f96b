import type { LookupAddress } from 'node:dns'
import { open } from 'node:fs/promises'
import { isIP } from 'node:net'

/** Finds the addresses that the hosts file gives a name. @returns undefined when it gives none */
export type FindHost = (name: string) => Promise<readonly LookupAddress[] | undefined>

type Hosts = ReadonlyMap<string, readonly LookupAddress[]>

/** What is beyond it is not read. */
const BYTES_MAX = 256 * 1_024

/** How long what was read is taken for what the file says. */
const FRESH_MS = 5_000

/**
 * Reads `/etc/hosts`, which `extra_hosts` and `hostAliases` of containers are written into and which
 * nameservers do not know. (What the registry has for it is made for changing the file.)
 */
export function createHostsFile(path = '/etc/hosts'): FindHost {
  let hosts: Promise<Hosts> | undefined
  let readAtMs = 0
  return async (name) => {
    const nowMs = performance.now()
    if (hosts === undefined || nowMs - readAtMs > FRESH_MS) {
      readAtMs = nowMs
      // A machine without the file has no such names.
      hosts = readBeginning(path).then(parseHosts, () => new Map())
    }
    return (await hosts).get(name)
  }
}

/** hosts(5): an address, and the names it has; `#` begins a comment. */
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
