import type { Interceptor } from '@connectrpc/connect'
import type { Logger } from 'pino'
import { Counter, Histogram, type Registry } from 'prom-client'
import { callerKey } from '../../caller.ts'
import { type Fault, REASONS } from '../../errors.ts'
import { originKey } from '../calls.ts'
import { toFault } from '../status.ts'

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
  return (next) => async (request) => {
    const origin = request.contextValues.get(originKey)
    const door = origin?.door ?? 'unknown'
    const started = performance.now()
    let outcome = 'ok'
    try {
      return await next(request)
    } catch (error) {
      const fault = toFault(error)
      outcome = fault.reason
      logFault(log, fault, {
        request_id: origin?.requestId,
        rpc: request.url,
        door,
        caller: callerText(request.contextValues.get(callerKey)),
        latency_ms: Math.round(performance.now() - started),
      })
      throw fault
    } finally {
      counters(request.url, door, outcome).inc()
      timers(request.url, door, '').observe((performance.now() - started) / 1000)
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

function callerText(caller: { readonly kind: string } | undefined): string | undefined {
  if (caller === undefined) return undefined
  if ('businessId' in caller) return String(caller.businessId)
  return 'tokenId' in caller ? String(caller.tokenId) : undefined
}

function logFault(log: Logger, fault: Fault, facts: Record<string, unknown>): void {
  const status = REASONS[fault.reason][1]
  const record = { ...facts, reason: fault.reason }
  if (status === 500) log.error({ ...record, err: fault.cause }, fault.message)
  else if (status === 503) log.warn({ ...record, err: fault.cause }, fault.message)
  else log.info({ ...record, fields: fault.fields.map((field) => field.field) }, 'call refused')
}
