import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'

/** Returns distinct ports that were free a moment ago. */
export async function freePorts(host: string, count: number): Promise<readonly number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen({ host, port: 0 }))
  // Keep every port open until all are known, so that they differ.
  await Promise.all(servers.map((server) => once(server, 'listening')))
  const ports = servers.map((server) => (server.address() as AddressInfo).port)
  await Promise.all(servers.map((server) => once(server.close(), 'close')))
  return ports
}
