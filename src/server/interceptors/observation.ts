import type { Interceptor, StreamRequest, UnaryRequest } from '@connectrpc/connect'
import type { Logger } from 'pino'
import { Counter } from 'prom-client'
import { type Caller, callerKey } from '../../auth/caller.ts'
import type { PolicyOf } from '../../auth/method-policy.ts'
import { addressGroup } from '../../core/addresses.ts'
import { type Fault, REASONS, type Reason } from '../../core/errors.ts'
import { createLogSampler } from '../../core/log-sampler.ts'
import {
  type Attributes,
  createTimer,
  exemplarOf,
  inRequest,
  parseTraceparent,
  type Span,
  type Tracing,
} from '../../core/tracing.ts'
import type { Runtime } from '../../postgres/runtime.ts'
import { type CallContext, callContextKey, type Protocol } from '../invokers.ts'
import { toFault } from '../status.ts'
import { type CredentialIdOf, credentialOf } from './authentication.ts'

/** Successful calls that take longer are logged. */
const SLOW_MS = 1_000

/**
 * Turns every error into a Fault, counts and times each call, and logs failed calls. Only the tracing interceptor runs
 * before it.
 */
export function observation(
  { log, metrics }: Pick<Runtime, 'log' | 'metrics'>,
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
  // Looking up a label set costs more than counting, so each label set is looked up once.
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

/** The trace id of the call for its log line, whether this service or only the caller records the trace. */
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

/** The id of the key or token that an unauthenticated call claims to use; the secret is never logged. */
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

/** The values of `rpc.system.name` in OpenTelemetry, which has no value for REST. */
const SYSTEMS: Readonly<Record<Protocol, string>> = {
  grpc: 'grpc',
  connect: 'connectrpc',
  rest: 'http',
}

/** Traces each call; the span of a stream ends when it is open. It runs first, so that other interceptors find the span. */
export function callTracing(tracing: Tracing): Interceptor {
  // Not async: most calls are not recorded, and another promise would delay each of them.
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
    // OpenTelemetry does not count an error of the caller as an error of the server span.
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

/** The reasons for which unauthenticated callers can be refused any number of times. */
const OF_STRANGERS: ReadonlySet<Reason> = new Set([
  'unauthorized',
  'permission_denied',
  'address_not_allowed',
  'rate_limited',
])

/** The most log lines about one address, and in total, per window. */
const LINES = { linesMax: 20, totalMax: 200, windowMs: 10_000 } as const

const TEXT = 'call refused'

type Schedule = (end: () => void, afterMs: number) => void

/** Logs a refused call, so that operators notice attempts to guess credentials. */
type LogRefusal = (
  record: Readonly<Record<string, unknown>>,
  reason: Reason,
  address: string,
) => void

/** Logs refused calls; the metric `inflow_rpc_requests_total` counts all of them. */
export function createLogRefusal(log: Logger, schedule?: Schedule): LogRefusal {
  const sampled = sampleByAddress(log, { level: 'info', text: TEXT }, schedule)
  return (record, reason, address) => {
    if (OF_STRANGERS.has(reason)) sampled(address, record)
    else log.info(record, TEXT)
  }
}

/**
 * Bounds the log lines that unauthenticated callers cause. A caller can have a whole IPv6 /64, so a /64 counts as one address.
 */
export function sampleByAddress(
  log: Logger,
  { level, text }: Pick<Parameters<typeof createLogSampler>[0], 'level' | 'text'>,
  schedule?: Schedule,
): (address: string, record: Readonly<Record<string, unknown>>) => void {
  const sampled = createLogSampler({
    log,
    level,
    text,
    by: 'address_group',
    ...LINES,
    ...(schedule && { schedule }),
  })
  return (address, record) => sampled(addressGroup(address), record)
}
