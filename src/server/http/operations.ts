import type { FastifyInstance } from 'fastify'

/** What operators and their tools ask a server. */
export interface Operations {
  readonly metrics: Exposition
  /** Why calls cannot be served now; empty: they can. */
  readonly ready: () => Promise<readonly string[]>
  /** What an operator should know although calls can be served. */
  readonly notes: () => readonly string[]
}

/** The response of `/metrics`, which is rendered at most once a second. */
export interface Exposition {
  readonly contentType: string
  metrics(): Promise<string>
}

/** `/healthz`: whether the process lives. */
export function registerHealth(app: FastifyInstance): void {
  app.get('/healthz', async () => ({ status: 'ok' }))
}

/** `/readyz` and `/metrics`. */
export function registerOperations(app: FastifyInstance, options: Operations): void {
  app.get('/readyz', async (_request, reply) => {
    const reasons = await options.ready()
    const found = options.notes()
    const notes = found.length > 0 ? { notes: found } : {}
    if (reasons.length === 0) return { status: 'ready', ...notes }
    return reply.code(503).send({ status: 'not ready', reasons, ...notes })
  })
  const { metrics } = options
  app.get('/metrics', (_request, reply) => {
    reply.header('content-type', metrics.contentType)
    return metrics.metrics()
  })
}
