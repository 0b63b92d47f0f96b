import { createSecureContext } from 'node:tls'
import { Client, credentials } from '@grpc/grpc-js'
import { type ChannelSecurity, type ClientTls, secure } from '../client/connection.ts'
import { failingNote } from '../core/loop.ts'
import { createFindings, type Finding } from './finding.ts'
import { get, type OwnTls } from './own-servers.ts'

/** How long a server may take to respond. */
const RESPONSE_TIMEOUT_MS = 5_000

/** `SERVING` in a response of grpc.health.v1.Health: field 1, value 1. */
const SERVING = Buffer.from([0x08, 0x01])

interface Servers {
  /** Undefined: the server requires a client certificate, and none is configured. */
  readonly grpcUrl: string | undefined
  /** Undefined: unknown. */
  readonly httpUrl: string | undefined
  /** The URL of the server with /readyz. */
  readonly opsUrl: string | undefined
  /** The TLS options for https URLs. */
  readonly tls: ClientTls | OwnTls
}

/** Checks the health of a running service. @param servers undefined: no service was found */
export async function checkService(servers: Servers | undefined): Promise<readonly Finding[]> {
  const findings = createFindings('Service')
  if (servers === undefined) {
    findings.warn('no running service was found', 'start one: npm start, or inflow serve')
    return findings.all
  }
  const { grpcUrl, httpUrl, opsUrl, tls } = servers
  const fault = grpcUrl && (await checkHealth(grpcUrl, tls))
  if (grpcUrl === undefined) {
    const advice = 'set INFLOW_CERT and INFLOW_KEY to the files of a client certificate'
    findings.warn('gRPC was not checked: TLS_CLIENT_CA asks for a client certificate', advice)
  } else if (fault === undefined) findings.ok(`gRPC at ${grpcUrl} is healthy`)
  else {
    findings.fail(`gRPC at ${grpcUrl} is not healthy: ${fault}`, 'start it, or check its log')
  }
  if (httpUrl !== undefined && opsUrl !== undefined) {
    const notReady = await checkReadiness(opsUrl, tls)
    if (notReady === undefined) {
      findings.ok(`HTTP at ${httpUrl} is ready`)
      for (const found of await findFailingLoops(opsUrl, tls)) {
        findings.fail(found, 'see the log of the service: `loop failed`')
      }
    } else
      findings.fail(
        `HTTP at ${httpUrl} is not ready: ${notReady}`,
        'check its log and its database',
      )
  }
  return findings.all
}

/** @returns the fault; undefined if the server is healthy */
function checkHealth(grpcUrl: string, tls: Servers['tls']): Promise<string | undefined> {
  const { protocol, host } = new URL(grpcUrl)
  const channel =
    protocol === 'https:'
      ? 'checkServerIdentity' in tls
        ? ownChannel(tls)
        : secure(host, tls)
      : { credentials: credentials.createInsecure(), options: {} }
  const client = new Client(host, channel.credentials, channel.options)
  const same = (bytes: Buffer) => bytes
  return new Promise((resolve) => {
    client.makeUnaryRequest(
      '/grpc.health.v1.Health/Check',
      same,
      same,
      Buffer.alloc(0),
      { deadline: Date.now() + RESPONSE_TIMEOUT_MS },
      (error, response) => {
        client.close()
        if (error) resolve(error.details)
        else resolve(response?.equals(SERVING) ? undefined : 'it is shutting down')
      },
    )
  })
}

/** The security settings of a grpc-js channel for `OwnTls`. */
function ownChannel(tls: OwnTls): ChannelSecurity {
  const { checkServerIdentity = () => undefined } = tls
  return {
    credentials: credentials.createFromSecureContext(createSecureContext(tls), {
      checkServerIdentity,
    }),
    // grpc-js would send the IP address as the server name, which SNI does not allow.
    options: { 'grpc.ssl_target_name_override': 'localhost' },
  }
}

/** @returns the fault; undefined if the service is ready */
async function checkReadiness(opsUrl: string, tls: Servers['tls']): Promise<string | undefined> {
  try {
    const { statusCode, text } = await get(new URL('/readyz', opsUrl), tls, RESPONSE_TIMEOUT_MS)
    return statusCode === 200 ? undefined : `status ${statusCode} ${text.slice(0, 300)}`
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    return message || code || 'no response'
  }
}

/** A loop that has failed for less time usually recovers. */
const FAILING_SECONDS = 60

const FAILING_LOOP = /^inflow_loop_failing_seconds\{loop="([^"]*)"\} (\S+)$/gm

/** Finds failing background work in the metrics. With several workers, only the worker that responds is checked. */
async function findFailingLoops(opsUrl: string, tls: Servers['tls']): Promise<readonly string[]> {
  const { text } = await get(new URL('/metrics', opsUrl), tls, RESPONSE_TIMEOUT_MS)
  return [...text.matchAll(FAILING_LOOP)]
    .map(([, loop = '', seconds]) => ({ loop, seconds: Number(seconds) }))
    .filter(({ seconds }) => seconds >= FAILING_SECONDS)
    .map(({ loop, seconds }) => failingNote(loop, seconds))
}
