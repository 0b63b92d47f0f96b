import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { listenFault } from '../listen-fault.ts'
import type { Ports } from './messages.ts'

/**
 * Ports that were free a moment ago, in the place of those that are 0. All workers listen at the same
 * ones, also those that come later, when the ones that picked them may have ended.
 */
export async function choosePorts(asked: Ports & { readonly host: string }): Promise<Ports> {
  // Both are held until both are known, so that they differ.
  const held = await Promise.all(
    [asked.httpPort, asked.grpcPort].map((port) => (port === 0 ? hold(asked) : undefined)),
  )
  const [http, grpc] = held.map((server) => (server?.address() as AddressInfo | undefined)?.port)
  for (const server of held) server?.close()
  return { httpPort: http ?? asked.httpPort, grpcPort: grpc ?? asked.grpcPort }
}

async function hold({ host }: { readonly host: string }) {
  const server = createServer().listen({ host, port: 0 })
  await once(server, 'listening').catch((error: unknown) => {
    throw listenFault('HTTP_PORT', { host, port: 0 }, error)
  })
  return server
}
