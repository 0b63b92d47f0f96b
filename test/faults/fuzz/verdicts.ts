import type { GrpcAnswer } from './grpc-requests.ts'
import type { HttpAnswer, HttpRequest } from './http-requests.ts'

/** What is wrong with an answer; undefined: nothing. */
export type Verdict = string | undefined

/** How often each outcome was seen over each protocol: requests that all fail early would show little. */
export const seen = new Map<string, number>()

function count(outcome: string): void {
  seen.set(outcome, (seen.get(outcome) ?? 0) + 1)
}

const REQUEST_ID = /^req_[0-9a-z]{24,}$/

/** The service's own words when its database does not respond in time: the machine is busy. */
const IS_BUSY = /cannot(?: |%20)reach(?: |%20)its(?: |%20)database/

/** An answer of the REST prefix or of any other path that Connect does not serve. */
export function judgeRest(request: HttpRequest, answer: HttpAnswer): Verdict {
  count(`REST ${answer.status}`)
  if (answer.status === 503 && IS_BUSY.test(answer.body.toString())) return undefined
  if (answer.status >= 500 || answer.status < 200) return `status ${answer.status}`
  if (!REQUEST_ID.test(`${answer.headers['x-request-id']}`)) return 'no X-Request-Id'
  if (request.method === 'HEAD') return undefined
  const path = request.path.split(/[?#]/, 1)[0] ?? ''
  if (!path.toLowerCase().startsWith('/v2/thirdparty/')) return undefined
  return judgeEnvelope(answer.status, answer.body.toString())
}

function judgeEnvelope(status: number, text: string): Verdict {
  let body: Record<string, unknown>
  try {
    body = JSON.parse(text)
  } catch {
    return `no JSON: ${text.slice(0, 100)}`
  }
  if (status === 200) {
    const fine = body['status'] === true && typeof body['message'] === 'string' && body['data']
    return fine ? undefined : 'not the envelope of a success'
  }
  const { status: ok, message, code, doc_url: doc, request_id: id, errors, ...others } = body
  if (ok !== false || typeof message !== 'string' || typeof code !== 'string') {
    return 'not the envelope of an error'
  }
  if (doc !== `/docs/errors#${code}`) return 'no doc_url'
  if (!REQUEST_ID.test(`${id}`)) return 'no request_id'
  if (errors !== undefined && !Array.isArray(errors)) return 'errors is no list'
  if (Object.keys(others).length > 0) return `has ${Object.keys(others)}`
  return /\n {4}at |select |insert /.test(text) ? 'shows our inside' : undefined
}

/** What only goes wrong on our side. */
const OURS = ['unknown', 'internal', 'unavailable', 'data_loss']

/** gRPC's numbers of the same. */
const OUR_STATUSES = ['2', '13', '14', '15']

/** An answer in one of the protocols of Connect. */
export function judgeConnect(request: HttpRequest, answer: HttpAnswer): Verdict {
  if (!REQUEST_ID.test(`${answer.headers['x-request-id']}`)) return 'no X-Request-Id'
  const texts = `${answer.headers['grpc-message']} ${answer.body.toString('latin1')}`
  if (IS_BUSY.test(texts)) return undefined
  const code = connectCode(answer)
  count(`Connect ${code ?? grpcWebStatus(answer) ?? answer.status}`)
  if (code !== undefined && OURS.includes(code)) {
    return `code ${code}: ${answer.body.toString('latin1').slice(0, 300)}`
  }
  const status = grpcWebStatus(answer)
  if (status !== undefined && OUR_STATUSES.includes(status)) {
    return `grpc-status ${status}: ${answer.headers['grpc-message'] ?? answer.body.toString('latin1').slice(0, 300)}`
  }
  // Connect has statuses of its own for two faults of callers.
  if (answer.status === 501 && code === 'unimplemented') return undefined
  if (answer.status === 504 && code === 'deadline_exceeded') return undefined
  if (answer.status >= 500 || answer.status < 200) {
    return `status ${answer.status} at ${request.headers['content-type']}: ${answer.body.toString('latin1').slice(0, 300)}`
  }
  return undefined
}

/** Of a unary error, or at the end of a stream. */
function connectCode({ headers, body, status }: HttpAnswer): string | undefined {
  const type = headers['content-type'] ?? ''
  if (type.startsWith('application/connect+')) {
    const end = /\{.*\}$/s.exec(body.toString('latin1'))?.[0]
    return /"error":\{[^}]*"code":"([a-z_]+)"/.exec(end ?? '')?.[1]
  }
  if (status === 200 || !type.includes('json')) return undefined
  return /"code":"([a-z_]+)"/.exec(body.toString('latin1'))?.[1]
}

function grpcWebStatus({ headers, body }: HttpAnswer): string | undefined {
  if (!(headers['content-type'] ?? '').includes('grpc-web')) return undefined
  const inHeaders = headers['grpc-status']
  if (inHeaders !== undefined) return `${inHeaders}`
  return /grpc-status: ?(\d+)/i.exec(body.toString('latin1'))?.[1]
}

/**
 * What the gRPC library answers INTERNAL to by itself, as gRPC's table of generated codes has it:
 * bytes that do not decompress, a deadline that is none, a health check that does not parse.
 */
const PROTOCOL_FAULTS =
  /^(Failed to decompress message|Invalid grpc-timeout value .*|Error deserializing request)$/

export function judgeGrpc(answer: GrpcAnswer): Verdict {
  const { status, headers, trailers, reset, abandoned } = answer
  if (abandoned) return undefined
  // NO_ERROR after an early end, REFUSED, or what the client's own library found wrong.
  if (status === undefined) return reset === 0 ? 'no answer' : undefined
  if (status >= 500 || status < 200) return `status ${status}`
  if (status !== 200) return undefined
  const code = trailers['grpc-status'] ?? headers['grpc-status']
  count(`gRPC ${code}`)
  if (code === undefined) return reset === 0 ? 'no grpc-status' : undefined
  if (!OUR_STATUSES.includes(`${code}`)) return undefined
  const text = decodeURIComponent(`${trailers['grpc-message'] ?? headers['grpc-message']}`)
  const isExpected =
    `${code}` === '13' ? PROTOCOL_FAULTS.test(text) : `${code}` === '14' && IS_BUSY.test(text)
  return isExpected ? undefined : `grpc-status ${code}: ${text}`
}

/** What came back for bytes that may be no HTTP. */
export function judgeRawHttp(answer: Buffer): Verdict {
  const text = answer.toString('latin1')
  if (text === '') return undefined
  for (const [line, status] of text.matchAll(/^HTTP\/1\.1 (\d{3})[^\r]*/gm)) {
    if (Number(status) >= 500) return line
  }
  if (!text.startsWith('HTTP/1.1 ')) return `not HTTP: ${text.slice(0, 60)}`
  return /x-request-id: req_/i.test(text) ? undefined : `no X-Request-Id: ${text.slice(0, 200)}`
}
