import { Code } from '@connectrpc/connect'
import { HealthImplementation } from 'grpc-health-check'
import type { GrpcCall } from './grpc-call.ts'
import type { GrpcMethod } from './grpc-method.ts'
import { packageMethods } from './grpc-packages.ts'

/** Watches of health, which anybody may open. */
const WATCHES_MAX = 1_000

type PackageServer = Parameters<HealthImplementation['addToServer']>[0]

/** `grpc.health.v1.Health`. */
export interface Health {
  readonly methods: readonly GrpcMethod[]
  /** Tells everybody, and ends the watches: they would keep the server open for nothing. */
  stopServing(): void
}

/** @param services what there is besides the server as a whole, which has the name "" */
export function createHealth(services: readonly string[]): Health {
  const names = ['', ...services]
  const health = new HealthImplementation(
    Object.fromEntries(names.map((name) => [name, 'SERVING' as const])),
  )
  const methods: GrpcMethod[] = []
  const watches = new Set<GrpcCall>()
  const addService = (definitions: object, handlers: object) => {
    for (const method of packageMethods(definitions, handlers)) {
      methods.push(method.path.endsWith('/Watch') ? bounded(method, watches) : method)
    }
  }
  health.addToServer({ addService } as PackageServer)
  return {
    methods,
    stopServing() {
      for (const name of names) health.setStatus(name, 'NOT_SERVING')
      for (const watch of watches) watch.end()
    },
  }
}

function bounded(method: GrpcMethod, watches: Set<GrpcCall>): GrpcMethod {
  return {
    ...method,
    handle(call) {
      if (watches.size >= WATCHES_MAX) {
        call.fail({ code: Code.ResourceExhausted, text: 'Too many watch already' })
        return
      }
      method.handle(call)
      if (call.over) return
      watches.add(call)
      const { onClose } = call
      call.onClose = () => {
        watches.delete(call)
        onClose?.()
      }
    },
  }
}
