import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'

/** Ports at which nothing listened a moment ago, all different. */
export async function freePorts(host: string, count: number): Promise<readonly number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen({ host, port: 0 }))
  // Each is held until all are known.
  await Promise.all(servers.map((server) => once(server, 'listening')))
  const ports = servers.map((server) => (server.address() as AddressInfo).port)
  await Promise.all(servers.map((server) => once(server.close(), 'close')))
  return ports
}
