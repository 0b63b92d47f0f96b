import type { Interceptor } from '@connectrpc/connect'
import type { Logger } from 'pino'
import { Counter, Histogram, type Registry } from 'prom-client'
import { type Caller, callerKey } from '../../caller.ts'
import { type Fault, REASONS } from '../../errors.ts'
import { originKey } from '../calls.ts'
import { toFault } from '../status.ts'

/** A call that takes longer is worth a line, although it went well. */
const SLOW_MS = 1_000

/**
 * The outermost interceptor: whatever is thrown leaves it as a Fault, and every call is counted,
 * timed and, when it failed, logged.
 */
export function observation(log: Logger, metrics: Registry): Interceptor {
  const calls = new Counter({
    name: 'inflow_calls_total',
    help: 'Calls, by method, door and outcome ("ok" or the reason of the fault).',
    labelNames: ['rpc', 'door', 'outcome'],
    registers: [metrics],
  })
  const seconds = new Histogram({
    name: 'inflow_call_duration_seconds',
    help: 'Time to answer a call; of a stream, to open it.',
    labelNames: ['rpc', 'door'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 15],
    registers: [metrics],
  })
  // Looking a label set up costs more than counting; each of the few is looked up once.
  const counters = cached((rpc, door, outcome) => calls.labels(rpc, door, outcome))
  const timers = cached((rpc, door) => seconds.labels(rpc, door))
  const chatty = log.isLevelEnabled('debug')
  return (next) => async (request) => {
    const origin = request.contextValues.get(originKey)
    const door = origin?.door ?? 'unknown'
    const started = performance.now()
    const facts = (latencyMs: number) => ({
      request_id: origin?.requestId,
      rpc: request.url,
      door,
      ...callerFacts(request.contextValues.get(callerKey)),
      latency_ms: Math.round(latencyMs),
    })
    let outcome = 'ok'
    try {
      return await next(request)
    } catch (error) {
      const fault = toFault(error)
      outcome = fault.reason
      logFault(log, fault, facts(performance.now() - started))
      throw fault
    } finally {
      const latencyMs = performance.now() - started
      counters(request.url, door, outcome).inc()
      timers(request.url, door, '').observe(latencyMs / 1000)
      if (outcome === 'ok' && (chatty || latencyMs > SLOW_MS)) {
        const record = { ...facts(latencyMs), status: 'OK' }
        if (latencyMs > SLOW_MS) log.info(record, 'call slow')
        else log.debug(record, 'call')
      }
    }
  }
}

function cached<T>(make: (rpc: string, door: string, outcome: string) => T) {
  const known = new Map<string, Map<string, T>>()
  return (rpc: string, door: string, outcome: string): T => {
    let byOutcome = known.get(rpc)
    if (byOutcome === undefined) {
      byOutcome = new Map()
      known.set(rpc, byOutcome)
    }
    const key = outcome === '' ? door : `${door} ${outcome}`
    let value = byOutcome.get(key)
    if (value === undefined) {
      value = make(rpc, door, outcome)
      byOutcome.set(key, value)
    }
    return value
  }
}

function callerFacts(caller: Caller | undefined): Record<string, string> {
  if (caller === undefined) return {}
  if (caller.kind === 'internal') return { token_id: caller.tokenId }
  return { business_id: caller.businessId, key_id: caller.keyId }
}

function logFault(log: Logger, fault: Fault, facts: Record<string, unknown>): void {
  const [code, status] = REASONS[fault.reason]
  const record = { ...facts, status: code, reason: fault.reason }
  if (status === 500) log.error({ ...record, err: fault.cause }, fault.message)
  else if (status === 503) log.warn({ ...record, err: fault.cause }, fault.message)
  else log.info({ ...record, fields: fault.fields.map((field) => field.field) }, 'call refused')
}
