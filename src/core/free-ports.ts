import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'

/**
 * Finds distinct ports that were free a moment ago.
 *
 * @param wanted the requested ports; 0: any port
 * @throws the error of listening, with its `port`
 */
export async function freePorts(
  host: string,
  wanted: readonly number[],
): Promise<readonly number[]> {
  const servers = wanted.map(() => createServer())
  try {
    // Every port stays open until all ports are chosen, so that they differ.
    await Promise.all(
      servers.map(async (server, index) => {
        server.listen({ host, port: wanted[index] })
        await once(server, 'listening')
      }),
    )
    return servers.map((server) => (server.address() as AddressInfo).port)
  } finally {
    const open = servers.filter(({ listening }) => listening)
    await Promise.all(open.map((server) => once(server.close(), 'close')))
  }
}
