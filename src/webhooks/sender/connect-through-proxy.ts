import type { Duplex } from 'node:stream'
import { type buildConnector, Client } from 'undici'
import { createLookup, NameError, type Resolve } from '../../net/name-resolver.ts'
import { CONNECT_TIMEOUT_MS, type Connect, createConnect } from './connect.ts'
import { NoAnswerError } from './failure-text.ts'

interface ProxyOptions {
  /** http or https; its user and password are sent to the proxy alone. */
  readonly proxyUrl: string
  /** Finds the proxy, which may be at any address. */
  readonly resolve: Resolve
  /** Throws for names that resolve here to where no webhook may go. */
  readonly guardedResolve: Resolve
}

/**
 * Connects through an egress proxy, which is asked to CONNECT to the name: such proxies allow by
 * name. What cannot be resolved here is the proxy's to resolve, and to refuse.
 *
 * Each connection has one of its own to the proxy, so that none waits for another's.
 */
export function createProxyConnect(options: ProxyOptions): Connect {
  const { guardedResolve } = options
  const startTls = createConnect(guardedResolve)
  const connect = async (target: buildConnector.Options): Promise<Duplex> => {
    await guardedResolve(target.hostname).catch((error: unknown) => {
      if (!(error instanceof NameError)) throw error
    })
    return openTunnel(options, target)
  }
  return (target, callback) => {
    connect(target).then(
      (socket) => {
        // undici gives out the socket as what it is to its callers, a stream.
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
    throw new NoAnswerError(`the egress proxy answered ${statusCode}`)
  } catch (error) {
    if (error instanceof NoAnswerError) throw error
    throw new NoAnswerError('the egress proxy does not answer', { cause: error })
  } finally {
    // A tunnel is not the client's any more.
    void client.destroy()
  }
}

function authorization({ username, password }: URL): Record<string, string> {
  if (username === '' && password === '') return {}
  const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  return { 'proxy-authorization': `Basic ${Buffer.from(credentials).toString('base64')}` }
}
