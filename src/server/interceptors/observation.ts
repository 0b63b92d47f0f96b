import type { Interceptor, StreamRequest, UnaryRequest } from '@connectrpc/connect'
import type { Logger } from 'pino'
import { Counter, type Registry } from 'prom-client'
import { type Caller, callerKey } from '../../auth/caller.ts'
import type { PolicyOf } from '../../auth/method-policy.ts'
import { type Fault, REASONS } from '../../core/errors.ts'
import { inRequest } from '../../core/request-scope.ts'
import { createTimer, exemplarOf } from '../../tracing/timer.ts'
import { parseTraceparent } from '../../tracing/traceparent.ts'
import { type CallContext, callContextKey } from '../rpc/call-context.ts'
import { toFault } from '../rpc/status.ts'
import { type CredentialIdOf, credentialOf } from './credential.ts'
import { createLogRefusal, type LogRefusal } from './refusal-log.ts'

/** A successful call that takes longer is logged. */
const SLOW_MS = 1_000

/**
 * Turns every error into a Fault, counts and times each call, and logs failed ones. Only tracing is outside of it.
 */
export function observation(
  log: Logger,
  metrics: Registry,
  policyOf: PolicyOf,
  credentialIdOf: CredentialIdOf,
): Interceptor {
  const calls = new Counter({
    name: 'inflow_rpc_requests_total',
    help: 'RPCs handled, by method, protocol and code ("ok" or the reason of the error).',
    labelNames: ['method', 'protocol', 'code'],
    registers: [metrics],
  })
  const durations = createTimer(
    {
      name: 'inflow_rpc_duration_seconds',
      help: 'Duration of an RPC until its response; of a stream, until it is open.',
      labelNames: ['method', 'protocol'],
      buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 15],
    },
    metrics,
  )
  // Looking up a label set costs more than counting, so each is looked up once.
  const counters = cached((rpc, protocol, outcome) => calls.labels(rpc, protocol, outcome))
  const timers = cached((method, protocol) => durations.of({ method, protocol }))
  const logRefusal = createLogRefusal(log)
  return (next) => async (request) => {
    const context = request.contextValues.get(callContextKey)
    const protocol = context?.protocol ?? 'unknown'
    const started = performance.now()
    const facts = (latencyMs: number) => ({
      request_id: context?.requestId,
      ...traceFacts(context),
      rpc: request.url,
      protocol,
      address: context?.address,
      ...callerFacts(request.contextValues.get(callerKey)),
      latency_ms: Math.round(latencyMs),
    })
    let outcome = 'ok'
    try {
      return await (context === undefined
        ? next(request)
        : inRequest({ request_id: context.requestId, ...traceFacts(context) }, () => next(request)))
    } catch (error) {
      const fault = toFault(error)
      outcome = fault.reason
      const claimed = claimedId(request, policyOf, credentialIdOf)
      const record = { ...facts(performance.now() - started), ...claimed, ...fault.logged }
      logFault(log, logRefusal, fault, record)
      throw fault
    } finally {
      const latencyMs = performance.now() - started
      counters(request.url, protocol, outcome).inc()
      timers(request.url, protocol, '')(latencyMs / 1_000, exemplarOf(context?.span))
      if (outcome === 'ok' && (latencyMs > SLOW_MS || log.isLevelEnabled('debug'))) {
        const record = { ...facts(latencyMs), status: 'OK' }
        if (latencyMs > SLOW_MS) log.info(record, 'slow call')
        else log.debug(record, 'call')
      }
    }
  }
}

/** The trace of the call, whether it is recorded here or only by the caller. */
function traceFacts(context: CallContext | undefined): { readonly trace_id?: string } {
  const trace = context?.span?.context ?? parseTraceparent(context?.traceparent)
  return trace === undefined ? {} : { trace_id: trace.traceId }
}

function cached<T>(make: (rpc: string, protocol: string, outcome: string) => T) {
  const known = new Map<string, Map<string, T>>()
  return (rpc: string, protocol: string, outcome: string): T => {
    let byOutcome = known.get(rpc)
    if (byOutcome === undefined) {
      byOutcome = new Map()
      known.set(rpc, byOutcome)
    }
    const key = outcome === '' ? protocol : `${protocol} ${outcome}`
    let value = byOutcome.get(key)
    if (value === undefined) {
      value = make(rpc, protocol, outcome)
      byOutcome.set(key, value)
    }
    return value
  }
}

function callerFacts(caller: Caller | undefined): Record<string, string> {
  if (caller === undefined) return {}
  if (caller.kind === 'internal') {
    return { token_id: caller.tokenId, ...(caller.session && { session_id: caller.session.id }) }
  }
  return { business_id: caller.businessId, key_id: caller.keyId }
}

/** The key or token that an unauthenticated call claims to use. Never more of it than its id. */
function claimedId(
  request: UnaryRequest | StreamRequest,
  policyOf: PolicyOf,
  credentialIdOf: CredentialIdOf,
): { readonly claimed_id?: string } {
  if (request.contextValues.get(callerKey) !== undefined) return {}
  const kind = policyOf(request.method).credential
  const credential = credentialOf(request, kind)
  if (credential === undefined) return {}
  const id = credentialIdOf(kind, credential)
  return id === undefined ? {} : { claimed_id: id }
}

function logFault(
  log: Logger,
  logRefusal: LogRefusal,
  fault: Fault,
  facts: Readonly<Record<string, unknown>>,
): void {
  const [code, status] = REASONS[fault.reason]
  const record = { ...facts, status: code, reason: fault.reason }
  const failure = { ...record, error: fault.message, err: fault.cause }
  if (status === 500) log.error(failure, 'call failed')
  else if (status === 503) log.warn(failure, 'call could not be served')
  else {
    const fields = fault.fields.map((field) => field.field)
    logRefusal({ ...record, fields }, fault.reason, String(facts['address'] ?? ''))
  }
}
