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

type Schedule = (end: () => void, afterMs: number) => void

/** Logs a refused call, so that guessing can be seen. */
export type LogRefusal = (
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
 * Bounds the lines about what strangers do. One of them can have a whole /64 of IPv6, so that counts as one
 * address.
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
