import type { IncomingHttpHeaders } from 'node:http'
import type { Duplex } from 'node:stream'
import { type buildConnector, Client, type Dispatcher } from 'undici'
import { createLookup, createNameResolver, NameError, type Resolve } from '../../core/addresses.ts'
import type { ClientCertificate } from '../connections/connection.ts'
import type { UrlRules } from './address-guard.ts'
import {
  CONNECT_TIMEOUT_MS,
  type Connect,
  createConnect,
  createEndpointPools,
  createGuardedResolve,
  type Destination,
} from './connect.ts'
import { failureText, NOT_HTTP, NoResponseError } from './failure-text.ts'

/** The outcome of one request. */
export interface Outcome {
  /** HTTP status; undefined without a response. */
  readonly status: number | undefined
  /** The first 4 KiB of the response body, if no other bound is stated. */
  readonly responseBody: string
  /** Why it failed; empty if it was acknowledged. */
  readonly error: string
  /** The Retry-After header of the response. */
  readonly retryAfter: string | undefined
  /** The recorded trace that contains this attempt. */
  readonly traceId?: string
}

/** Sends webhooks, to allowed addresses only. */
export interface HttpClient {
  /**
   * Faults of the receiver and the network are returned in the outcome.
   *
   * @throws for an invalid header, which is a fault of the caller
   */
  post(
    to: Destination,
    headers: Record<string, string>,
    body: string | Buffer,
    bounds?: Bounds,
  ): Promise<Outcome>
  /** The longest that a webhook and its response take: at most half a lease. */
  readonly timeoutMs: number
  /** Ends the requests in progress. */
  close(): Promise<void>
}

/** Bounds that differ from the bounds of webhooks. */
interface Bounds {
  /** For the whole request and its response. */
  readonly timeoutMs: number
  /** How much of the response body is kept. */
  readonly keptBytes: number
}

interface HttpClientOptions {
  readonly rules: UrlRules
  /** For the whole request and its response. */
  readonly timeoutMs: number
  /** An egress proxy for every request. */
  readonly proxyUrl?: string | undefined
  readonly resolve?: Resolve | undefined
}

/** This much of a response body is read. */
const BODY_READ_MAX_BYTES = 64 * 1_024

const BODY_KEPT_BYTES = 4 * 1_024

/** The maximum number of informational responses, such as 102, before the final one. */
const INFORMATIONAL_MAX = 16

const STOPPED = 'the service stopped'

const NO_BYTES = Buffer.alloc(0)

export function createHttpClient(options: HttpClientOptions): HttpClient {
  const { rules, timeoutMs, proxyUrl, resolve = createNameResolver() } = options
  const guardedResolve = createGuardedResolve(rules.guard, resolve)
  const pools = createEndpointPools({
    rules,
    createConnect: (certificate) =>
      proxyUrl === undefined
        ? createConnect(guardedResolve, certificate)
        : createProxyConnect({ proxyUrl, resolve, guardedResolve, certificate }),
  })
  let stopped = false
  return {
    post(to, headers, body, bounds = { timeoutMs, keptBytes: BODY_KEPT_BYTES }) {
      if (stopped) return Promise.resolve(failed(STOPPED))
      const target = pools.find(to)
      if ('refusal' in target) return Promise.resolve(failed(`refused: ${target.refusal}`))
      const { path } = target
      return new Promise((resolve, reject) => {
        const exchange = new Exchange(bounds, resolve, reject)
        target.pool.dispatch({ method: 'POST', path, headers, body }, exchange)
      })
    },
    timeoutMs,
    close() {
      stopped = true
      return pools.destroy(new NoResponseError(STOPPED))
    },
  }
}

/**
 * One request in progress. The status counts as soon as it is received, even if the body breaks off
 * or never ends.
 */
class Exchange implements Dispatcher.DispatchHandler {
  readonly #resolve: (outcome: Outcome) => void
  readonly #reject: (error: Error) => void
  readonly #timer: NodeJS.Timeout
  readonly #keptBytes: number
  /** Undefined until the connection is established. */
  #controller: Dispatcher.DispatchController | undefined
  #informational = 0
  #status: number | undefined
  #retryAfter: string | undefined
  #body = NO_BYTES
  #readBytes = 0
  #isOver = false

  constructor(
    { timeoutMs, keptBytes }: Bounds,
    resolve: (outcome: Outcome) => void,
    reject: (error: Error) => void,
  ) {
    this.#keptBytes = keptBytes
    this.#resolve = resolve
    this.#reject = reject
    this.#timer = setTimeout(() => {
      this.#abort(new NoResponseError(`timed out after ${timeoutMs / 1_000} s`))
    }, timeoutMs)
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    // A request that ended before the connection was established is not sent.
    if (this.#isOver) controller.abort(new NoResponseError(STOPPED))
    else this.#controller = controller
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
  ): void {
    if (status < 200) {
      this.#informational += 1
      if (this.#informational > INFORMATIONAL_MAX) this.#abort(new NoResponseError(NOT_HTTP))
      return
    }
    this.#status = status
    const retryAfter: string | string[] | undefined = headers['retry-after']
    if (typeof retryAfter === 'string') this.#retryAfter = retryAfter
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    const room = this.#keptBytes - this.#body.length
    // A copy: the chunk is a slice of a larger buffer.
    if (room > 0) this.#body = Buffer.concat([this.#body, chunk.subarray(0, room)])
    this.#readBytes += chunk.length
    if (this.#readBytes > BODY_READ_MAX_BYTES) this.#abort(new NoResponseError('cut off'))
  }

  onResponseEnd(): void {
    this.#end(undefined)
  }

  onResponseError(_controller: unknown, error: Error & { readonly code?: string }): void {
    if (error.code === 'UND_ERR_INVALID_ARG') {
      clearTimeout(this.#timer)
      this.#reject(error)
    } else this.#end(error)
  }

  #abort(error: Error): void {
    if (this.#controller) this.#controller.abort(error)
    this.#end(error)
  }

  #end(error: Error | undefined): void {
    if (this.#isOver) return
    this.#isOver = true
    clearTimeout(this.#timer)
    const status = this.#status
    this.#resolve(status === undefined ? failed(failureText(error)) : this.#responded(status))
  }

  #responded(status: number): Outcome {
    return {
      status,
      // PostgreSQL cannot store NUL in a text.
      responseBody: this.#body.toString('utf8').replaceAll('\0', ''),
      error: statusError(status),
      retryAfter: this.#retryAfter,
    }
  }
}

/** The outcome of an attempt without a response. */
export function failed(error: string): Outcome {
  return { status: undefined, responseBody: '', error, retryAfter: undefined }
}

function statusError(status: number): string {
  if (status >= 200 && status < 300) return ''
  if (status >= 300 && status < 400) return `redirects are not followed (${status})`
  return `responded with ${status}`
}

interface ProxyOptions {
  /** http or https; its user and password are sent to the proxy only. */
  readonly proxyUrl: string
  /** Resolves the proxy, which may have any address. */
  readonly resolve: Resolve
  /** Throws for names that resolve here to an address that the guard refuses. */
  readonly guardedResolve: Resolve
  /** Presented to the receiver, and never to the proxy. */
  readonly certificate?: ClientCertificate | undefined
}

/**
 * Connects through an egress proxy with CONNECT and the host name, because such proxies have
 * allowlists of names. The proxy resolves, and may refuse, names that cannot be resolved here.
 *
 * Each connection has its own connection to the proxy, so that none waits for another.
 */
function createProxyConnect(options: ProxyOptions): Connect {
  const { guardedResolve, certificate } = options
  const startTls = createConnect(guardedResolve, certificate)
  const connect = async (target: buildConnector.Options): Promise<Duplex> => {
    await guardedResolve(target.hostname).catch((error: unknown) => {
      if (!(error instanceof NameError)) throw error
    })
    return openTunnel(options, target)
  }
  return (target, callback) => {
    connect(target).then(
      (socket) => {
        // undici types the socket as a stream.
        const httpSocket = socket as NonNullable<buildConnector.Options['httpSocket']>
        if (target.protocol === 'https:') startTls({ ...target, httpSocket }, callback)
        else callback(null, httpSocket)
      },
      (error: Error) => callback(error, null),
    )
  }
}

async function openTunnel(
  { proxyUrl, resolve }: ProxyOptions,
  { host, protocol, port }: buildConnector.Options,
): Promise<Duplex> {
  const proxy = new URL(proxyUrl)
  const client = new Client(proxy.origin, {
    allowH2: false,
    connect: { timeout: CONNECT_TIMEOUT_MS, lookup: createLookup(resolve) },
  })
  try {
    const { statusCode, socket } = await client.connect({
      path: port ? `${host}` : `${host}:${protocol === 'https:' ? 443 : 80}`,
      headers: authorization(proxy),
      signal: AbortSignal.timeout(CONNECT_TIMEOUT_MS),
    })
    if (statusCode >= 200 && statusCode < 300) return socket
    socket.on('error', () => undefined).destroy()
    throw new NoResponseError(`the egress proxy responded with ${statusCode}`)
  } catch (error) {
    if (error instanceof NoResponseError) throw error
    throw new NoResponseError('the egress proxy does not respond', { cause: error })
  } finally {
    // The tunnel no longer belongs to the client.
    void client.destroy()
  }
}

function authorization({ username, password }: URL): Record<string, string> {
  if (username === '' && password === '') return {}
  const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  return { 'proxy-authorization': `Basic ${Buffer.from(credentials).toString('base64')}` }
}
