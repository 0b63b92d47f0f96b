import { Client, credentials } from '@grpc/grpc-js'
import { Agent, request } from 'undici'
import { type ClientTls, secure } from '../client/credentials.ts'
import { createFindings, type Finding } from './finding.ts'

/** The time that a server has to respond. */
const RESPONSE_TIMEOUT_MS = 5_000

/** `SERVING` in a response of grpc.health.v1.Health: field 1, value 1. */
const SERVING = Buffer.from([0x08, 0x01])

interface Servers {
  readonly grpcUrl: string
  /** Undefined: unknown. */
  readonly httpUrl: string | undefined
  /** Of /readyz. */
  readonly opsUrl: string | undefined
  /** For https URLs. */
  readonly tls: ClientTls
}

/** Checks the health of a running service. @param servers undefined: no service was found */
export async function checkService(servers: Servers | undefined): Promise<readonly Finding[]> {
  const findings = createFindings('Service')
  if (servers === undefined) {
    findings.warn('no running service was found', 'start one: npm start, or inflow serve')
    return findings.all
  }
  const { grpcUrl, httpUrl, opsUrl, tls } = servers
  const fault = await checkHealth(grpcUrl, tls)
  if (fault === undefined) findings.ok(`gRPC at ${grpcUrl} is healthy`)
  else {
    findings.fail(`gRPC at ${grpcUrl} is not healthy: ${fault}`, 'start it, or check its log')
  }
  if (httpUrl !== undefined && opsUrl !== undefined) {
    const notReady = await checkReadiness(opsUrl, tls)
    if (notReady === undefined) findings.ok(`HTTP at ${httpUrl} is ready`)
    else
      findings.fail(
        `HTTP at ${httpUrl} is not ready: ${notReady}`,
        'check its log and its database',
      )
  }
  return findings.all
}

/** @returns what is wrong; undefined: nothing */
function checkHealth(grpcUrl: string, tls: ClientTls): Promise<string | undefined> {
  const { protocol, host } = new URL(grpcUrl)
  const channel =
    protocol === 'https:'
      ? secure(host, tls)
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

/** @returns what is wrong; undefined: nothing */
async function checkReadiness(opsUrl: string, tls: ClientTls): Promise<string | undefined> {
  const dispatcher = new Agent({ connect: tls })
  try {
    const signal = AbortSignal.timeout(RESPONSE_TIMEOUT_MS)
    const { statusCode, body } = await request(new URL('/readyz', opsUrl), { dispatcher, signal })
    const text = await body.text()
    return statusCode === 200 ? undefined : `status ${statusCode} ${text.slice(0, 300)}`
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    return message || code || 'no response'
  } finally {
    await dispatcher.destroy()
  }
}
