import type { ServiceDefinition } from '@grpc/grpc-js'

/**
 * The definition of a service that asks for no credential, with small requests: what a stranger
 * sends stays in memory for as long as its call is open.
 */
export function boundRequests(
  definition: ServiceDefinition,
  messageBytesMax: number,
): ServiceDefinition {
  const entries = Object.entries(definition).map(([name, method]) => [
    name,
    {
      ...method,
      requestDeserialize: (bytes: Buffer) => {
        // A message may be compressed, and longer than what came over the network.
        if (bytes.length > messageBytesMax) throw new Error('The request is too large')
        return method.requestDeserialize(bytes)
      },
    },
  ])
  return Object.fromEntries(entries) as ServiceDefinition
}
