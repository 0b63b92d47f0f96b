import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Socket } from 'node:net'
import { Fault } from '../../core/errors.ts'
import { toErrorResponse } from '../rest/envelope.ts'

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
