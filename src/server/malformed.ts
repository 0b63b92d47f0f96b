import { type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { Fault } from '../errors.ts'
import { toErrorAnswer } from './gateway/envelope.ts'

/** A request that is not HTTP as the standard has it. */
export function malformedRequest(text: string, cause?: unknown): Fault {
  return new Fault('malformed_request', text, { cause })
}

/** A socket of an HTTP server: Node keeps the answer that is being written on it. */
type HttpSocket = Socket & { readonly _httpMessage?: ServerResponse }

type HeaderList = readonly (readonly [name: string, value: string])[]

/**
 * Answers what never becomes a request, because Node's parser gave it up or it did not come in
 * time, in the one form of errors, and closes the connection.
 */
export function answerMalformed(requestIds: () => string, securityHeaders: HeaderList) {
  return (error: Error & { readonly code?: string }, socket: HttpSocket): void => {
    if (error.code === 'ECONNRESET' || socket.destroyed) return
    // An answer that has begun cannot be followed by another one.
    if (socket.writable && socket._httpMessage?.headersSent !== true) {
      socket.write(answerTo(error, requestIds(), securityHeaders))
    }
    socket.destroySoon()
  }
}

function answerTo(
  error: { readonly code?: string },
  requestId: string,
  securityHeaders: HeaderList,
): string {
  const { status, headers, body } = toErrorAnswer(faultOf(error), requestId)
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
    return new Fault('request_timeout', 'The request did not come in time')
  }
  if (code === 'HPE_HEADER_OVERFLOW') {
    return new Fault('headers_too_large', 'The headers are larger than 16 KiB')
  }
  return malformedRequest('The request is not HTTP')
}
