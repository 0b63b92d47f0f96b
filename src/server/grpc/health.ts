import {
  type Server,
  type ServerWritableStream,
  status,
  type UntypedHandleCall,
  type UntypedServiceImplementation,
} from '@grpc/grpc-js'
import { HealthImplementation } from 'grpc-health-check'
import { boundRequests } from './open-services.ts'

/** The maximum of health watches, which need no credential. */
const WATCHES_MAX = 1_000

/** `grpc.health.v1.Health`, for the whole server and for every service. */
export interface Health {
  /** Reports NOT_SERVING. */
  announceStop(): void
  /** Ends the watches, which would keep the server open. */
  endWatches(): void
}

type Watch = ServerWritableStream<unknown, unknown>

/** @param services the names of the services; the whole server has the name "" */
export function addHealth(
  server: Server,
  services: readonly string[],
  messageBytesMax: number,
): Health {
  const names = ['', ...services]
  const health = new HealthImplementation(
    Object.fromEntries(names.map((name) => [name, 'SERVING' as const])),
  )
  const watches = new Set<Watch>()
  health.addToServer({
    addService: (definition, implementation) => {
      const { watch } = implementation as UntypedServiceImplementation
      const bounded = (rpc: Watch): void => {
        if (watches.size >= WATCHES_MAX) {
          const details = 'Too many watches of health'
          rpc.emit('error', { code: status.RESOURCE_EXHAUSTED, details })
          return
        }
        watches.add(rpc)
        rpc.once('close', () => watches.delete(rpc))
        ;(watch as (rpc: Watch) => void)(rpc)
      }
      server.addService(boundRequests(definition, messageBytesMax), {
        ...(implementation as UntypedServiceImplementation),
        watch: bounded as UntypedHandleCall,
      })
    },
  })
  return {
    announceStop() {
      for (const name of names) health.setStatus(name, 'NOT_SERVING')
    },
    endWatches() {
      for (const watch of watches) watch.end()
    },
  }
}
