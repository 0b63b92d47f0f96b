import {
  createAsyncIterable,
  type UniversalHandler,
  type UniversalHandlerFn,
  type UniversalServerResponse,
} from '@connectrpc/connect/protocol'
import { Fault } from '../../core/errors.ts'
import { toErrorResponse } from '../rest/envelope.ts'
import { hasEncoding } from '../rest/gateway.ts'
import { admissionKey, peerKey } from './admission.ts'

/** Bodies that Connect decompresses as a whole; other protocols compress message by message. */
const COMPRESSED_WHOLE = /^application\/(json|proto)\b/i

/**
 * Makes a handler of Connect refuse in our words where it would respond with a bare status, and a body
 * that is too large with 413 where it would with 429, which asks clients to try again.
 */
export function restateRefusals(handler: UniversalHandler): UniversalHandler {
  const methods = handler.allowedMethods.join(', ')
  const handle: UniversalHandlerFn = async (request) => {
    const { header, contextValues } = request
    const requestId = contextValues?.get(peerKey).requestId ?? ''
    const compressible = COMPRESSED_WHOLE.test(header.get('content-type') ?? '')
    if (!compressible && hasEncoding(header.get('content-encoding'))) {
      const text = 'Send the body without Content-Encoding'
      return respond(new Fault('unsupported_media_type', text), requestId)
    }
    const response = await handler(request)
    if (response.status === 405) {
      const fault = new Fault('method_not_allowed', `This path accepts only ${methods}`)
      return respond(fault, requestId, { allow: methods })
    }
    if (response.status === 415) {
      const text = 'Send the Content-Type of Connect or gRPC-Web, such as application/json'
      return respond(new Fault('unsupported_media_type', text), requestId)
    }
    const tooLarge = response.status === 429 && contextValues?.get(admissionKey)?.isTooLarge()
    return tooLarge ? { ...response, status: 413 } : response
  }
  return Object.assign(handle, handler)
}

/** Responds with the error envelope. */
function respond(
  fault: Fault,
  requestId: string,
  more: Readonly<Record<string, string>> = {},
): UniversalServerResponse {
  const { status, headers, body } = toErrorResponse(fault, requestId)
  const bytes = Buffer.from(body)
  return {
    status,
    header: new Headers({
      ...headers,
      ...more,
      'content-type': 'application/json; charset=utf-8',
      'content-length': `${bytes.length}`,
    }),
    body: createAsyncIterable([bytes]),
  }
}
