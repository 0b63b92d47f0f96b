import { isIPv4 } from 'node:net'
import ipaddr from 'ipaddr.js'

/** A header of version 1 of the PROXY protocol. */
export function proxyV1(address: string, port: number): Buffer {
  const [family, own] = isIPv4(address) ? ['TCP4', '192.0.2.1'] : ['TCP6', '2001:db8::1']
  return Buffer.from(`PROXY ${family} ${address} ${own} ${port} 443\r\n`)
}

/** A header of version 2. @param additions what a load balancer adds */
export function proxyV2(address: string, port: number, additions = Buffer.alloc(0)): Buffer {
  const own = isIPv4(address) ? '192.0.2.1' : '2001:db8::1'
  const bytes = [address, own].flatMap((each) => ipaddr.parse(each).toByteArray())
  const ports = [port >> 8, port & 255, 1, 187]
  const length = bytes.length + ports.length + additions.length
  const family = isIPv4(address) ? 0x11 : 0x21
  return Buffer.concat([
    Buffer.from('\r\n\r\n\0\r\nQUIT\n'),
    Buffer.from([0x21, family, length >> 8, length & 255, ...bytes, ...ports]),
    additions,
  ])
}
