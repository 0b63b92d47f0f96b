import type { Acknowledgement, BankCode, BankNotification } from '../banks/bank.ts'
import { currentRequest, inRequest } from '../core/request-scope.ts'
import { type PaymentTrace, paymentTraceOf } from '../tracing/payment-trace.ts'
import { parseTraceparent } from '../tracing/traceparent.ts'
import type { Tracing } from '../tracing/tracing.ts'

const ROUTE = '/banks/:bank/notifications'

/** The trace of a notification that arrives. */
export function traceNotification(
  tracing: Tracing | undefined,
  bank: BankCode,
  { headers: { traceparent } }: BankNotification,
): PaymentTrace {
  const span = tracing?.start(`POST ${ROUTE}`, {
    kind: 'server',
    parent: parseTraceparent(traceparent),
    attributes: { 'http.request.method': 'POST', 'http.route': ROUTE, 'inflow.bank': bank },
  })
  return paymentTraceOf({ traceparent, span })
}

/** The trace of a notification that the service retries: it goes on where it was stored. */
export function traceRetry(
  tracing: Tracing | undefined,
  bank: BankCode,
  { headers: { traceparent } }: BankNotification,
): PaymentTrace {
  const span = tracing?.start('retry notification', {
    parent: parseTraceparent(traceparent),
    attributes: { 'inflow.bank': bank },
  })
  return paymentTraceOf({ traceparent, span })
}

/** Processes a notification: lines of the log have its trace id too. */
export function inTrace<T>({ span, traceparent }: PaymentTrace, process: () => T): T {
  const request = currentRequest()
  const trace = span?.context ?? parseTraceparent(traceparent)
  if (request === undefined || trace === undefined) return process()
  return inRequest({ ...request, trace_id: trace.traceId }, process)
}

/** A notification as it is stored: with its trace, so that a retry continues it. */
export function withTrace(
  notification: BankNotification,
  { traceparent }: PaymentTrace,
): BankNotification {
  if (traceparent === undefined) return notification
  return { ...notification, headers: { ...notification.headers, traceparent } }
}

/** Ends the step that received a notification. */
export function endReceipt(
  { span }: PaymentTrace,
  outcome: string,
  { status }: Acknowledgement,
): void {
  span?.set({ 'inflow.notification.outcome': outcome, 'http.response.status_code': status })
  span?.end(status >= 500 ? `${status}` : undefined)
}
