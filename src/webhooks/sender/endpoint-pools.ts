import { LRUCache } from 'lru-cache'
import { Pool } from 'undici'
import type { ClientCertificate } from '../connections/connection.ts'
import { type UrlRules, urlRefusal } from './address-guard.ts'
import type { Connect } from './connect.ts'

/** An endpoint to send requests to. */
export interface Destination {
  readonly endpointId: string
  readonly url: string
  /** The maximum number of concurrent requests. */
  readonly concurrency: number
  /** What connections present if the receiver asks for it. The same object for the same certificate. */
  readonly certificate?: ClientCertificate
}

/** The connections to an endpoint and its path, or why it may not be called. */
export type Target = { readonly pool: Pool; readonly path: string } | { readonly refusal: string }

/** The connections to endpoints, kept open between requests. Endpoints never share a connection. */
export interface EndpointPools {
  find(destination: Destination): Target
  /** Ends the requests in progress. @param error the reason */
  destroy(error: Error): Promise<void>
}

interface Known extends Pick<Destination, 'url' | 'concurrency'> {
  readonly certificate: ClientCertificate | undefined
  readonly target: Target
}

interface EndpointPoolsOptions {
  readonly rules: UrlRules
  /** Creates the connector of one endpoint. */
  readonly createConnect: (certificate: ClientCertificate | undefined) => Connect
}

/** Endpoints with connections. Beyond it, those of the least recently used are closed. */
const ENDPOINTS_MAX = 500

/** How long an idle connection is kept if the receiver does not say, and at most. */
const KEEP_ALIVE_MS = 4_000
const KEEP_ALIVE_MAX_MS = 60_000

const HEAD_MAX_BYTES = 16 * 1_024

export function createEndpointPools({ rules, createConnect }: EndpointPoolsOptions): EndpointPools {
  const open = new Set<Pool>()
  const openPool = (origin: string, { concurrency, certificate }: Destination): Pool => {
    const pool = new Pool(origin, {
      connections: concurrency,
      pipelining: 1,
      allowH2: false,
      connect: createConnect(certificate),
      keepAliveTimeout: KEEP_ALIVE_MS,
      keepAliveMaxTimeout: KEEP_ALIVE_MAX_MS,
      maxHeaderSize: HEAD_MAX_BYTES,
      // The request has its own timeout, which a trickling response does not renew.
      headersTimeout: 0,
      bodyTimeout: 0,
    })
    open.add(pool)
    return pool
  }
  /** The rules do not change while the process runs, so a URL is checked once. */
  const targetOf = (destination: Destination): Target => {
    const { url } = destination
    const refusal = urlRefusal(url, rules)
    if (refusal !== undefined) return { refusal: `the URL ${refusal}` }
    const { origin, pathname, search } = new URL(url)
    return { pool: openPool(origin, destination), path: pathname + search }
  }
  /** Lets the requests in progress finish first. */
  const closePool = async (target: Target): Promise<void> => {
    if ('refusal' in target) return
    await target.pool.close()
    open.delete(target.pool)
  }
  const known = new LRUCache<string, Known>({
    max: ENDPOINTS_MAX,
    dispose: ({ target }) => void closePool(target),
  })
  return {
    find(destination) {
      const { endpointId, url, concurrency, certificate } = destination
      const found = known.get(endpointId)
      const isSame = found?.url === url && found.concurrency === concurrency
      if (isSame && found.certificate === certificate) return found.target
      const target = targetOf(destination)
      known.set(endpointId, { url, concurrency, certificate, target })
      return target
    },
    async destroy(error) {
      await Promise.all([...open].map((pool) => pool.destroy(error)))
    },
  }
}
