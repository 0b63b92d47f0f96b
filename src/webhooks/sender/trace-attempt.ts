import { traceparentOf } from '../../events/message.ts'
import {
  formatTraceparent,
  inSpan,
  parseTraceparent,
  type Span,
  type Tracing,
} from '../../tracing/tracing.ts'
import type { Claim } from '../deliveries/claim-deliveries.ts'
import type { Outcome } from './http-client.ts'

/**
 * Makes one attempt as a step of its payment's trace, which the receiver continues. Without tracing, the receiver
 * gets the traceparent of the payment as it is.
 *
 * @param send makes the request with a traceparent; undefined: without one
 */
export function traceAttempt(
  tracing: Tracing | undefined,
  claim: Claim,
  send: (traceparent: string | undefined) => Promise<Outcome>,
): Promise<Outcome> {
  const kept = traceparentOf(claim.entry.payload)
  if (tracing === undefined) return send(kept)
  const span = tracing.start('POST webhook', { kind: 'client', parent: parseTraceparent(kept) })
  // A trace that begins here and is not recorded is none of the receiver's concern.
  const traceparent =
    kept === undefined && !span.isRecorded ? undefined : formatTraceparent(span.context)
  if (!span.isRecorded) return send(traceparent)
  span.set(factsOf(claim))
  const traced = async (): Promise<Outcome> => {
    const outcome = await send(traceparent)
    if (outcome.status !== undefined) span.set({ 'http.response.status_code': outcome.status })
    return { ...outcome, traceId: span.context.traceId }
  }
  return inSpan(span, traced, failureOf)
}

/** Of the URL only the host: the rest may contain secrets. */
function factsOf({ id, endpointId, attempts, url, entry }: Claim): Parameters<Span['set']>[0] {
  const { hostname, port, protocol } = new URL(url)
  const scheme = protocol.slice(0, -1)
  return {
    'http.request.method': 'POST',
    'http.request.resend_count': attempts,
    'url.scheme': scheme,
    'server.address': hostname,
    'server.port': Number(port || (scheme === 'https' ? 443 : 80)),
    'messaging.system.name': 'webhook',
    'messaging.operation.type': 'send',
    'messaging.message.id': entry.eventId,
    'inflow.endpoint.id': endpointId,
    'inflow.delivery.id': id,
    'inflow.event.kind': entry.kind,
  }
}

function failureOf({ error, status }: Outcome): string | undefined {
  if (error === '') return undefined
  return status === undefined ? 'no_response' : `${status}`
}
