import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { Agent, request } from 'undici'
import type { ClientTls } from '../client/connection.ts'
import type { Config } from '../config/config.ts'

const CONNECT_TIMEOUT_MS = 2_000

/** The URLs at which a process on the same machine reaches the service of these settings. */
export interface OwnServers {
  readonly httpUrl: string
  readonly grpcUrl: string
  /** The URL of the server with /readyz and /metrics. */
  readonly opsUrl: string
  readonly tls: OwnTls
}

/**
 * Accepts only the certificate in TLS_CERT. Host names are not compared, because the certificate has the public name of the
 * service, and the address is that of this machine.
 */
export interface OwnTls extends ClientTls {
  readonly allowPartialTrustChain?: boolean
  readonly checkServerIdentity?: () => undefined
}

/** The servers of the settings; undefined if a port is 0, because only the running service knows the chosen port. */
export function ownServers(config: Config): OwnServers | undefined {
  const { httpPort, grpcPort, opsPort = httpPort, tls } = config
  if ([httpPort, grpcPort, opsPort].includes(0)) return undefined
  const host = localHost(config.host)
  const url = (port: number) => `${tls ? 'https' : 'http'}://${host}:${port}`
  const own = tls && {
    ca: readFileSync(tls.cert),
    allowPartialTrustChain: true,
    checkServerIdentity: () => undefined,
  }
  return { httpUrl: url(httpPort), grpcUrl: url(grpcPort), opsUrl: url(opsPort), tls: own ?? {} }
}

/** A server that listens at all addresses is reached at the loopback address of the same family. */
function localHost(host: string): string {
  if (host === '0.0.0.0') return '127.0.0.1'
  if (host === '::') return '[::1]'
  return host.includes(':') ? `[${host}]` : host
}

/** Whether any of the servers accepts connections. */
export async function hasListener({ httpUrl, grpcUrl, opsUrl }: OwnServers): Promise<boolean> {
  const listening = await Promise.all([httpUrl, grpcUrl, opsUrl].map(accepts))
  return listening.includes(true)
}

function accepts(url: string): Promise<boolean> {
  const { hostname, port } = new URL(url)
  const host = hostname.replace(/^\[|\]$/g, '')
  return new Promise((resolve) => {
    const socket = connect({ host, port: Number(port), timeout: CONNECT_TIMEOUT_MS })
    const end = (accepted: boolean) => () => {
      socket.destroy()
      resolve(accepted)
    }
    socket.on('connect', end(true)).on('error', end(false)).on('timeout', end(false))
  })
}

/** Sends a GET request over a new connection. */
export async function get(url: URL, tls: ClientTls | OwnTls, timeoutMs: number) {
  const dispatcher = new Agent({ connect: tls })
  try {
    const signal = AbortSignal.timeout(timeoutMs)
    const { statusCode, body } = await request(url, { dispatcher, signal })
    return { statusCode, text: await body.text() }
  } finally {
    await dispatcher.destroy()
  }
}
