import { isUtf8 } from 'node:buffer'
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { docUrl, Fault, REASONS } from '../../core/errors.ts'
import { refuseDroppedKeys } from '../rpc/strict-json.ts'

/**
 * Reads a body that is one JSON object.
 *
 * @param body undefined: there was none
 * @throws Fault malformed_json, which states where the body stops being JSON
 */
export function parseBody(body: unknown): Record<string, unknown> {
  const bytes = Buffer.isBuffer(body) ? body : Buffer.of()
  if (!isUtf8(bytes)) throw new Fault('malformed_json', 'The body is not UTF-8')
  const text = bytes.toString()
  const value = parse(text)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new Fault('malformed_json', 'The body must be one JSON object')
  }
  refuseDroppedKeys(text, value)
  return value as Record<string, unknown>
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new Fault('malformed_json', describe(text, stopOf(text, error as Error)))
  }
}

function describe(text: string, stop: number): string {
  if (text.trim() === '') return 'The body is empty; send one JSON object, such as {}'
  const before = text.slice(0, stop).split('\n')
  const place = `line ${before.length}, column ${(before.at(-1) ?? '').length + 1}`
  return stop >= text.trimEnd().length
    ? `The body is not valid JSON: it ends too early, at ${place}`
    : `The body is not valid JSON: see ${place}`
}

/**
 * Where a text stops being the beginning of JSON. V8 states the position of some faults only; that of the
 * others is the end of the longest beginning in which nothing is wrong yet.
 */
function stopOf(text: string, { message }: Error): number {
  const position = /at position (\d+)/.exec(message)?.[1]
  if (position !== undefined) return Number(position)
  if (message.startsWith('Unexpected end')) return text.length
  let [right, wrong] = [0, text.length]
  while (wrong - right > 1) {
    const middle = Math.floor((right + wrong) / 2)
    if (isBeginning(text.slice(0, middle))) right = middle
    else wrong = middle
  }
  return right
}

/** Whether a text that is not valid JSON is cut off, or wrong only at its end. */
function isBeginning(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch (error) {
    const { message } = error as Error
    const position = /at position (\d+)/.exec(message)?.[1]
    return position === undefined
      ? message.startsWith('Unexpected end')
      : Number(position) >= text.length || message.startsWith('Unterminated string')
  }
}

/** Returns the status, headers and error envelope of a fault. */
interface ErrorResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

export function toErrorResponse(fault: Fault, requestId: string): ErrorResponse {
  const status = REASONS[fault.reason][1]
  const headers = errorHeaders(fault)
  const body = JSON.stringify({
    status: false,
    message: fault.message,
    code: fault.reason,
    errors: fault.fields.length > 0 ? fault.fields : undefined,
    doc_url: docUrl(fault.reason),
    request_id: requestId,
  })
  return { status, headers, body }
}

/** The headers that HTTP asks for with a status. */
export function errorHeaders({ reason, retryAfterSeconds }: Fault): Record<string, string> {
  const status = REASONS[reason][1]
  const headers: Record<string, string> = {}
  if (status === 401) headers['www-authenticate'] = 'Bearer'
  if (status === 405) headers['allow'] = 'POST'
  if (retryAfterSeconds !== undefined) headers['retry-after'] = `${retryAfterSeconds}`
  return headers
}

/** The fault of a request that is not valid HTTP. */
export function malformedRequest(text: string, cause?: unknown): Fault {
  return new Fault('malformed_request', text, { cause })
}

type HeaderList = readonly (readonly [name: string, value: string])[]

export interface MalformedHandlers {
  /** Listener for `request`, before any other. */
  readonly onRequest: (request: IncomingMessage, response: ServerResponse) => void
  readonly onClientError: (error: Error & { readonly code?: string }, socket: Socket) => void
}

/**
 * Responds with the error envelope to what never becomes a request, because Node's parser rejected it
 * or it timed out, and closes the connection.
 */
export function handleMalformed(
  requestIds: () => string,
  securityHeaders: HeaderList,
): MalformedHandlers {
  const latest = new WeakMap<Socket, ServerResponse>()
  // Nothing may follow a response that has begun or waits for an earlier one.
  const hasBegun = (socket: Socket): boolean => {
    const response = latest.get(socket)
    if (response === undefined || response.writableFinished) return false
    return response.socket === null || response.headersSent
  }
  return {
    onRequest: (request, response) => latest.set(request.socket, response),
    onClientError(error, socket) {
      if (error.code === 'ECONNRESET' || socket.destroyed) return
      if (socket.writable && !hasBegun(socket)) {
        socket.write(responseTo(error, requestIds(), securityHeaders))
      }
      socket.destroySoon()
    },
  }
}

function responseTo(
  error: { readonly code?: string },
  requestId: string,
  securityHeaders: HeaderList,
): string {
  const { status, headers, body } = toErrorResponse(faultOf(error), requestId)
  const lines = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    `x-request-id: ${requestId}`,
    ...[...Object.entries(headers), ...securityHeaders].map(([name, value]) => `${name}: ${value}`),
    'content-type: application/json; charset=utf-8',
    `content-length: ${Buffer.byteLength(body)}`,
    'connection: close',
  ]
  return `${lines.join('\r\n')}\r\n\r\n${body}`
}

function faultOf({ code }: { readonly code?: string }): Fault {
  if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
    return new Fault('request_timeout', 'The request did not arrive in time')
  }
  if (code === 'HPE_HEADER_OVERFLOW') {
    return new Fault('headers_too_large', 'The headers are larger than 16 KiB')
  }
  return malformedRequest('The request is not HTTP')
}
