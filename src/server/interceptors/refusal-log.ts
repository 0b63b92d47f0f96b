import type { Logger } from 'pino'
import { addressGroup } from '../../auth/rate-limits/address-group.ts'
import type { Reason } from '../../core/errors.ts'
import { createLogSampler } from '../../core/log-sampler.ts'

/** What strangers can be refused for, as often as they like. */
const OF_STRANGERS: ReadonlySet<Reason> = new Set([
  'unauthorized',
  'permission_denied',
  'address_not_allowed',
  'rate_limited',
])

/** The lines about one address, and in total. */
const LINES = { linesMax: 20, totalMax: 200, windowMs: 10_000 } as const

const TEXT = 'call refused'

/** Logs a refused call, so that guessing can be seen. */
export type LogRefusal = (
  record: Readonly<Record<string, unknown>>,
  reason: Reason,
  address: string,
) => void

/**
 * Bounds the lines about refused credentials; the metric `inflow_rpc_requests_total` counts all. One
 * caller can have a whole /64 of IPv6, so that counts as one address.
 */
export function createLogRefusal(
  log: Logger,
  schedule?: (end: () => void, afterMs: number) => void,
): LogRefusal {
  const sampled = createLogSampler({
    ...{ log, level: 'info', text: TEXT, by: 'address_group', ...LINES },
    ...(schedule && { schedule }),
  })
  return (record, reason, address) => {
    if (OF_STRANGERS.has(reason)) sampled(addressGroup(address), record)
    else log.info(record, TEXT)
  }
}
