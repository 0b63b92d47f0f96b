import { connect, createServer, type Socket } from 'node:net'
import { servesGrpc } from './grpc-health.ts'
import { listen } from './listen.ts'
import { waitUntil } from './wait-for.ts'

/** An instance behind the balancer. */
interface Instance {
  readonly httpUrl: string
  readonly grpcUrl: string
}

/** A TCP load balancer for the HTTP and gRPC ports, which checks the health of the instances. */
export interface Balancer {
  readonly httpUrl: string
  readonly grpcUrl: string
  /** Adds an instance, and waits until connections may go to it. */
  add(instance: Instance): Promise<void>
  close(): Promise<void>
}

const CHECK_EVERY_MS = 100

/** New connections go to healthy instances in turn; open ones stay where they are. */
export async function startBalancer(): Promise<Balancer> {
  const backends: { readonly instance: Instance; http: boolean; grpc: boolean }[] = []
  const sockets = new Set<Socket>()
  let turn = 0
  // If none is healthy, connections go to those that were last.
  const last = { http: backends, grpc: backends }
  const pick = (of: 'http' | 'grpc'): URL | undefined => {
    const now = backends.filter((backend) => backend[of])
    if (now.length > 0) last[of] = now
    const healthy = last[of]
    turn += 1
    const { instance } = healthy[turn % healthy.length] ?? {}
    return instance && new URL(of === 'http' ? instance.httpUrl : instance.grpcUrl)
  }
  const forward = async (of: 'http' | 'grpc') => {
    const server = createServer((incoming) => {
      const target = pick(of)
      if (target === undefined) {
        incoming.destroy()
        return
      }
      const outgoing = connect(Number(target.port), target.hostname)
      for (const [socket, other] of [
        [incoming, outgoing],
        [outgoing, incoming],
      ] as const) {
        sockets.add(socket)
        socket.setNoDelay()
        socket.pipe(other)
        socket.on('error', () => other.destroy())
        socket.on('close', () => {
          sockets.delete(socket)
          other.destroy()
        })
      }
    })
    return { server, url: `http://127.0.0.1:${await listen(server)}` }
  }
  const check = async (): Promise<void> => {
    await Promise.all(
      backends.map(async (backend) => {
        const { httpUrl, grpcUrl } = backend.instance
        const [http, grpc] = await Promise.all([isReady(httpUrl), servesGrpc(grpcUrl)])
        Object.assign(backend, { http, grpc })
      }),
    )
  }
  const timer = setInterval(() => void check(), CHECK_EVERY_MS)
  const [http, grpc] = [await forward('http'), await forward('grpc')]
  return {
    httpUrl: http.url,
    grpcUrl: grpc.url,
    async add(instance) {
      const backend = { instance, http: false, grpc: false }
      backends.push(backend)
      await waitUntil(() => backend.http && backend.grpc)
    },
    async close() {
      clearInterval(timer)
      for (const socket of sockets) socket.destroy()
      await Promise.all(
        [http, grpc].map(({ server }) => new Promise((resolve) => server.close(resolve))),
      )
    },
  }
}

async function isReady(httpUrl: string): Promise<boolean> {
  try {
    const response = await fetch(`${httpUrl}/readyz`, { signal: AbortSignal.timeout(60_000) })
    await response.arrayBuffer()
    return response.ok
  } catch {
    return false
  }
}
