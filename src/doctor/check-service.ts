import { Client, credentials } from '@grpc/grpc-js'
import { createFindings, type Finding } from './finding.ts'

/** How long a door has to answer. */
const ANSWER_MS = 5_000

/** `SERVING` in the answer of grpc.health.v1.Health: field 1, value 1. */
const SERVING = Buffer.from([0x08, 0x01])

interface Doors {
  readonly grpcUrl: string
  /** Undefined: not known. */
  readonly httpUrl: string | undefined
}

/** Whether a running service says that it serves. @param doors undefined: none was found */
export async function checkService(doors: Doors | undefined): Promise<readonly Finding[]> {
  const findings = createFindings('Service')
  if (doors === undefined) {
    findings.warn('no running service was found', 'start one: npm start, or inflow serve')
    return findings.all
  }
  const { grpcUrl, httpUrl } = doors
  const health = await askHealth(grpcUrl)
  if (health === undefined) findings.ok(`gRPC at ${grpcUrl} serves`)
  else {
    findings.fail(`gRPC at ${grpcUrl} does not serve: ${health}`, 'start it, or see its log')
  }
  if (httpUrl !== undefined) {
    const fault = await askReady(httpUrl)
    if (fault === undefined) findings.ok(`HTTP at ${httpUrl} is ready`)
    else findings.fail(`HTTP at ${httpUrl} is not ready: ${fault}`, 'see its log, and its database')
  }
  return findings.all
}

/** @returns what is wrong */
function askHealth(grpcUrl: string): Promise<string | undefined> {
  const { protocol, host } = new URL(grpcUrl)
  const channel = protocol === 'https:' ? credentials.createSsl() : credentials.createInsecure()
  const client = new Client(host, channel)
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

async function askReady(httpUrl: string): Promise<string | undefined> {
  try {
    const signal = AbortSignal.timeout(ANSWER_MS)
    const answer = await fetch(new URL('/readyz', httpUrl), { signal })
    return answer.ok ? undefined : `status ${answer.status}`
  } catch (error) {
    const { cause, message } = error as Error & { cause?: Error }
    return cause?.message || message
  }
}
