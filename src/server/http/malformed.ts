import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { Fault } from '../../core/errors.ts'
import { toErrorAnswer } from '../rest/envelope.ts'

/** A request that is not HTTP as the standard has it. */
export function malformedRequest(text: string, cause?: unknown): Fault {
  return new Fault('malformed_request', text, { cause })
}

type HeaderList = readonly (readonly [name: string, value: string])[]

interface MalformedAnswers {
  /** To hear of every request of the server, before anything answers it. */
  readonly onRequest: (request: IncomingMessage, response: ServerResponse) => void
  readonly onClientError: (error: Error & { readonly code?: string }, socket: Socket) => void
}

/**
 * Answers what never becomes a request, because Node's parser gave it up or it did not come in
 * time, in the one form of errors, and closes the connection.
 */
export function answerMalformed(
  requestIds: () => string,
  securityHeaders: HeaderList,
): MalformedAnswers {
  const latest = new WeakMap<Socket, ServerResponse>()
  // An answer that has begun, or waits for the one before it, cannot be followed by another one.
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
        socket.write(answerTo(error, requestIds(), securityHeaders))
      }
      socket.destroySoon()
    },
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
