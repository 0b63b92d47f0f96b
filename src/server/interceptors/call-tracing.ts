import type { Interceptor } from '@connectrpc/connect'
import { REASONS } from '../../core/errors.ts'
import { parseTraceparent } from '../../tracing/traceparent.ts'
import type { Attributes, Span, Tracing } from '../../tracing/tracing.ts'
import { type CallContext, callContextKey, type Protocol } from '../rpc/call-context.ts'
import { toFault } from '../rpc/status.ts'

/** The names of OpenTelemetry; of REST it has none. */
const SYSTEMS: Readonly<Record<Protocol, string>> = {
  grpc: 'grpc',
  connect: 'connectrpc',
  rest: 'http',
}

/** Traces each call; of a stream, until it is open. It is outermost, so that the others find the span. */
export function callTracing(tracing: Tracing): Interceptor {
  // Not async: most calls are not recorded, and a promise of their own would delay each of them.
  return (next) => (request) => {
    const context = request.contextValues.get(callContextKey)
    if (context === undefined) return next(request)
    const method = request.url.slice(1)
    const parent = parseTraceparent(context.traceparent)
    const span = tracing.start(method, { kind: 'server', parent })
    context.span = span
    if (!span.isRecorded) return next(request)
    span.set(factsOf(context, method))
    return endWith(span, next(request))
  }
}

/** Ends the span of a call with its response. */
async function endWith<Response>(span: Span, responding: Promise<Response>): Promise<Response> {
  try {
    const response = await responding
    span.set({ 'rpc.response.status_code': 'OK' })
    span.end()
    return response
  } catch (error) {
    const { reason } = toFault(error)
    const [code, status] = REASONS[reason]
    span.set({ 'rpc.response.status_code': code, 'error.type': reason })
    // An error of the caller is none of this span.
    span.end(status >= 500 ? reason : undefined)
    throw error
  }
}

function factsOf({ protocol, requestId }: CallContext, method: string): Attributes {
  return {
    'rpc.system.name': SYSTEMS[protocol],
    'rpc.method': method,
    'inflow.request_id': requestId,
  }
}
