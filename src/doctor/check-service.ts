import { Client, credentials } from '@grpc/grpc-js'
import { Agent, request } from 'undici'
import { type ClientTls, secure } from '../client/credentials.ts'
import { createFindings, type Finding } from './finding.ts'

/** How long a door has to answer. */
const ANSWER_MS = 5_000

/** `SERVING` in the answer of grpc.health.v1.Health: field 1, value 1. */
const SERVING = Buffer.from([0x08, 0x01])

interface Servers {
  readonly grpcUrl: string
  /** Undefined: not known. */
  readonly httpUrl: string | undefined
  /** For both, where they speak TLS. */
  readonly tls: ClientTls
}

/** Whether a running service says that it serves. @param doors undefined: none was found */
export async function checkService(doors: Servers | undefined): Promise<readonly Finding[]> {
  const findings = createFindings('Service')
  if (doors === undefined) {
    findings.warn('no running service was found', 'start one: npm start, or inflow serve')
    return findings.all
  }
  const { grpcUrl, httpUrl, tls } = doors
  const health = await askHealth(grpcUrl, tls)
  if (health === undefined) findings.ok(`gRPC at ${grpcUrl} serves`)
  else {
    findings.fail(`gRPC at ${grpcUrl} does not serve: ${health}`, 'start it, or see its log')
  }
  if (httpUrl !== undefined) {
    const fault = await askReady(httpUrl, tls)
    if (fault === undefined) findings.ok(`HTTP at ${httpUrl} is ready`)
    else findings.fail(`HTTP at ${httpUrl} is not ready: ${fault}`, 'see its log, and its database')
  }
  return findings.all
}

/** @returns what is wrong */
function askHealth(grpcUrl: string, tls: ClientTls): Promise<string | undefined> {
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
      { deadline: Date.now() + ANSWER_MS },
      (error, answer) => {
        client.close()
        if (error) resolve(error.details)
        else resolve(answer?.equals(SERVING) ? undefined : 'it is shutting down')
      },
    )
  })
}

/** @returns what is wrong */
async function askReady(httpUrl: string, tls: ClientTls): Promise<string | undefined> {
  const dispatcher = new Agent({ connect: tls })
  try {
    const signal = AbortSignal.timeout(ANSWER_MS)
    const { statusCode, body } = await request(new URL('/readyz', httpUrl), { dispatcher, signal })
    await body.dump()
    return statusCode === 200 ? undefined : `status ${statusCode}`
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    return message || code || 'nobody answers'
  } finally {
    await dispatcher.destroy()
  }
}
