import { isIPv6 } from 'node:net'

/**
 * What an address counts as. An IPv4 address is itself, also in its IPv6 form; of an IPv6 address
 * the first 64 bits count, as whoever has one commonly has all the others of its network.
 */
export function addressGroup(address: string): string {
  if (!address.includes(':')) return address
  const groups = readIPv6(address)
  if (groups === undefined) return address
  if (groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff) {
    const [high = 0, low = 0] = groups.slice(6)
    return [high >> 8, high & 255, low >> 8, low & 255].join('.')
  }
  const network = groups.slice(0, 4)
  if (network.every((group) => group === 0)) return groups[7] === 1 ? '::1' : '::/64'
  return `${network.map((group) => group.toString(16)).join(':')}::/64`
}

/** Whether an address group is this machine. */
export function isLoopback(group: string): boolean {
  return group === '::1' || /^127(\.\d{1,3}){3}$/.test(group)
}

/** @returns the eight groups of 16 bits; undefined for what is no IPv6 address */
function readIPv6(address: string): number[] | undefined {
  // A link-local peer may come with the interface it was reached at: fe80::1%eth0.
  const plain = address.split('%', 1)[0] as string
  if (!isIPv6(plain)) return undefined
  const text = plain.replace(/\d+\.\d+\.\d+\.\d+$/, (tail) => {
    const [a = 0, b = 0, c = 0, d = 0] = tail.split('.').map(Number)
    return `${((a << 8) | b).toString(16)}:${((c << 8) | d).toString(16)}`
  })
  const [head = '', tail] = text.split('::')
  const before = readGroups(head)
  const after = readGroups(tail ?? '')
  return [...before, ...Array<number>(8 - before.length - after.length).fill(0), ...after]
}

function readGroups(text: string): number[] {
  return text === '' ? [] : text.split(':').map((group) => Number.parseInt(group, 16))
}
