import { type IncomingHttpHeaders, request } from 'node:http'
import { connect } from 'node:net'
import { inspect } from 'node:util'
import { ADMIN_TOKEN } from '../../support/admin-token.ts'
import { WAIT_LIMIT_MS } from '../../support/wait-for.ts'

/** An answer as it came over the wire. */
export interface WireAnswer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
}

interface WireRequest {
  readonly method?: string
  /** From the root; default: getTransaction. */
  readonly path?: string
  readonly headers?: Readonly<Record<string, string>>
  /** A list is sent in chunks, without a length. */
  readonly body?: string | Buffer | readonly string[]
}

export const GET_TRANSACTION = '/v2/thirdparty/getTransaction/'
export const GENERATE = '/v2/thirdparty/generateVirtualAccount/'

/** The five paths, without the slash at their ends. */
export const PATHS = [
  '/v2/thirdparty/generateVirtualAccount',
  '/v2/thirdparty/getTransaction',
  '/v2/thirdparty/getVirtualAccount',
  '/v2/thirdparty/listTransactions',
  '/v2/thirdparty/listEvents',
]

/** The headers of a well-formed call. */
export function asJson(key?: string): Record<string, string> {
  return {
    'content-type': 'application/json',
    ...(key !== undefined && { authorization: `Bearer ${key}` }),
  }
}

/** A method of Connect and gRPC-Web, and the headers with which an operator calls it. */
export const GET_BUSINESS = '/inflow.business.v1.BusinessService/GetBusiness'
export const asOperator = (contentType: string, more: Readonly<Record<string, string>> = {}) => ({
  authorization: `Bearer ${ADMIN_TOKEN}`,
  'content-type': contentType,
  ...more,
})

/** Sends exactly the headers given: fetch would add a content type, and refuse some methods. */
export function send(
  baseUrl: string,
  { method = 'POST', path = GET_TRANSACTION, headers = {}, body }: WireRequest,
): Promise<WireAnswer> {
  return new Promise((resolve, reject) => {
    const outgoing = request(baseUrl + path, { method, headers, agent: false }, (answer) => {
      const chunks: Buffer[] = []
      answer.on('data', (chunk: Buffer) => chunks.push(chunk))
      answer.on('end', () =>
        resolve({
          status: answer.statusCode ?? 0,
          headers: answer.headers,
          text: Buffer.concat(chunks).toString(),
        }),
      )
    })
    outgoing.on('error', reject)
    if (Array.isArray(body)) {
      for (const chunk of body) outgoing.write(chunk)
      outgoing.end()
    } else {
      outgoing.end(body as string | Buffer | undefined)
    }
  })
}

/** Sends bytes as they are, for what no HTTP client would send. @returns all that comes back */
export function exchange(baseUrl: string, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(baseUrl).port), '127.0.0.1')
    let answer = ''
    socket.on('data', (chunk) => {
      answer += chunk.toString()
    })
    socket.on('close', () => resolve(answer))
    socket.on('error', reject)
    socket.write(text)
  })
}

/**
 * The text of an answer with what is never twice the same replaced: the request id. The link to the
 * documentation is left out, if it is that of the code.
 */
export function golden(text: string): string {
  const code = /"code":"(\w+)"/.exec(text)?.[1]
  return text
    .replace(/"request_id":"req_[0-9a-z]{24,}"/, '"request_id":"*"')
    .replace(`"doc_url":"/docs/errors#${code}",`, '')
}

/** The error envelope as `golden` leaves it. */
export const envelope = (code: string, message: string, errors?: readonly object[]) =>
  JSON.stringify({ status: false, message, code, ...(errors && { errors }), request_id: '*' })

/** A request for an account that every bank opens. */
export function creation(overrides: Readonly<Record<string, unknown>> = {}) {
  return {
    reference: 'order-1',
    email: 'ada@example.com',
    phone: '08012345678',
    firstName: 'Ada',
    lastName: 'Obi',
    bank: '9PSB',
    ...overrides,
  }
}

/** Waits until a condition holds. Rejects after the bound, with what was seen last. */
export async function until<T>(
  look: () => Promise<T>,
  holds: (seen: T) => boolean,
  limitMs = WAIT_LIMIT_MS,
): Promise<T> {
  const endMs = Date.now() + limitMs
  for (;;) {
    const seen = await look()
    if (holds(seen)) return seen
    if (Date.now() > endMs) throw new Error(`not within ${limitMs} ms: ${inspect(seen)}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}
