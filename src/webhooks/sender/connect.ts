import { TLSSocket } from 'node:tls'
import { LRUCache } from 'lru-cache'
import { buildConnector, Pool } from 'undici'
import { createLookup, type Resolve } from '../../core/addresses.ts'
import type { ClientCertificate } from '../connections/connection.ts'
import { type AddressGuard, type UrlRules, urlRefusal } from './address-guard.ts'

/** Connects, and calls back once with the socket or an error. */
export type Connect = buildConnector.connector

/** The time-out of a connection, including name resolution and TLS. */
export const CONNECT_TIMEOUT_MS = 5_000

/** The receiver's certificate is not valid now. */
export class CertificateError extends Error {
  override readonly name = 'CertificateError'
}

/** A certificate's validity in the format of Node's TLS: "Nov 20 09:00:00 2026 GMT". */
interface Validity {
  readonly valid_from?: string
  readonly valid_to?: string
}

/**
 * undici's connector, whose errors also say since when a certificate is not valid. It does not
 * change which certificates are accepted.
 *
 * @param certificate presented if the receiver asks for one
 */
export function createConnect(resolve: Resolve, certificate?: ClientCertificate): Connect {
  const connect = buildConnector({
    ...certificate,
    allowH2: false,
    timeout: CONNECT_TIMEOUT_MS,
    lookup: createLookup(resolve),
  })
  return (target, callback) => {
    let validity: Validity = {}
    // undici's connector returns the socket, which its types omit. Without the socket, only the date is unknown.
    const socket: unknown = connect(target, (...[error, connected]) => {
      if (error) callback(withDate(error, validity), null)
      else callback(null, connected)
    })
    if (socket instanceof TLSSocket) {
      // Runs before undici's check at this event, which closes the connection and drops the certificate.
      socket.prependOnceListener('secure', () => {
        validity = socket.getPeerCertificate()
      })
    }
  }
}

function withDate(error: NodeJS.ErrnoException, { valid_from, valid_to }: Validity): Error {
  if (error.code === 'CERT_HAS_EXPIRED' && isDate(valid_to) && Date.parse(valid_to) < Date.now()) {
    return new CertificateError(`TLS certificate expired on ${dayOf(valid_to)}`, { cause: error })
  }
  if (error.code === 'CERT_NOT_YET_VALID' && isDate(valid_from)) {
    const text = `TLS certificate not valid before ${dayOf(valid_from)}`
    return new CertificateError(text, { cause: error })
  }
  return error
}

function isDate(text: string | undefined): text is string {
  return text !== undefined && !Number.isNaN(Date.parse(text))
}

function dayOf(text: string): string {
  return new Date(text).toISOString().slice(0, 10)
}

/** The name resolves to an address to which no webhook may be sent. */
export class RefusedError extends Error {
  override readonly name = 'RefusedError'
}

/**
 * Resolves a name only if every one of its addresses is allowed. The connection goes to one of the
 * checked addresses, so a name cannot resolve differently for the check and for the connection.
 *
 * It is not called for a host that is already an address: see `urlRefusal`.
 */
export function createGuardedResolve(guard: AddressGuard, resolve: Resolve): Resolve {
  return async (hostname) => {
    const addresses = await resolve(hostname)
    for (const { address } of addresses) {
      const refusal = guard.refusal(address)
      if (refusal) throw new RefusedError(`refused: resolves to ${refusal}`)
    }
    if (addresses.length === 0) throw new RefusedError('refused: resolves to no address')
    return addresses
  }
}

/** An endpoint to send requests to. */
export interface Destination {
  readonly endpointId: string
  readonly url: string
  /** The maximum number of concurrent requests. */
  readonly concurrency: number
  /** Presented if the receiver asks for a certificate. The same certificate must be the same object. */
  readonly certificate?: ClientCertificate
}

/** The connections to an endpoint and its path, or why it may not be called. */
type Target = { readonly pool: Pool; readonly path: string } | { readonly refusal: string }

interface Known extends Pick<Destination, 'url' | 'concurrency'> {
  readonly certificate: ClientCertificate | undefined
  readonly target: Target
}

interface EndpointPoolsOptions {
  readonly rules: UrlRules
  /** Creates the connector of one endpoint. */
  readonly createConnect: (certificate: ClientCertificate | undefined) => Connect
}

/** The most endpoints with open connections. Beyond it, the least recently used endpoints lose their connections. */
const ENDPOINTS_MAX = 500

/** How long an idle connection is kept if the receiver does not say, and the longest time that it may ask for. */
const KEEP_ALIVE_MS = 4_000
const KEEP_ALIVE_MAX_MS = 60_000

const HEAD_MAX_BYTES = 16 * 1_024

/** The connections to endpoints, kept open between requests. Endpoints never share a connection. */
export function createEndpointPools({ rules, createConnect }: EndpointPoolsOptions) {
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
    find(destination: Destination): Target {
      const { endpointId, url, concurrency, certificate } = destination
      const found = known.get(endpointId)
      const isSame = found?.url === url && found.concurrency === concurrency
      if (isSame && found.certificate === certificate) return found.target
      const target = targetOf(destination)
      known.set(endpointId, { url, concurrency, certificate, target })
      return target
    },
    /** Ends the requests in progress. @param error the reason */
    async destroy(error: Error): Promise<void> {
      await Promise.all([...open].map((pool) => pool.destroy(error)))
    },
  }
}
