import type { Duplex } from 'node:stream'
import { type buildConnector, Client } from 'undici'
import { createLookup, NameError, type Resolve } from '../../net/name-resolver.ts'
import type { ClientCertificate } from '../connections/connection.ts'
import { CONNECT_TIMEOUT_MS, type Connect, createConnect } from './connect.ts'
import { NoResponseError } from './failure-text.ts'

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
export function createProxyConnect(options: ProxyOptions): Connect {
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
