import type { ServiceDefinition } from '@grpc/grpc-js'

/**
 * Bounds the requests of a service that needs no credential: a stranger's request stays in memory
 * while its call is open.
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
        // A compressed message is longer than what arrived over the network.
        if (bytes.length > messageBytesMax) throw new Error('The request is too large')
        return method.requestDeserialize(bytes)
      },
    },
  ])
  return Object.fromEntries(entries) as ServiceDefinition
}
