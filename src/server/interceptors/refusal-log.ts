import { LRUCache } from 'lru-cache'
import type { Logger } from 'pino'
import { addressGroup } from '../../auth/rate-limits/address-group.ts'
import { TokenBucket } from '../../auth/rate-limits/token-bucket.ts'
import type { Reason } from '../../core/errors.ts'

/** What strangers can be refused for, as often as they like. */
const OF_STRANGERS: ReadonlySet<Reason> = new Set([
  'unauthorized',
  'permission_denied',
  'address_not_allowed',
  'rate_limited',
])

/** The lines about one address, and in total. */
const PER_ADDRESS = { perSecond: 1, burst: 20 } as const
const TOTAL = { perSecond: 20, burst: 200 } as const

/** Addresses beyond these are counted anew. */
const ADDRESSES_MAX = 1_000

interface Address {
  readonly bucket: TokenBucket
  /** Refusals since its last line. */
  unlogged: number
}

/** Logs a refused call, so that guessing can be seen. @param nowMs milliseconds since any origin */
export type LogRefusal = (
  record: Readonly<Record<string, unknown>>,
  reason: Reason,
  address: string,
  nowMs: number,
) => void

/** Logs what strangers are refused for. The metric `inflow_rpc_requests_total` counts all refused calls. */
export function createLogRefusal(log: Logger): LogRefusal {
  const admit = createRefusalBound()
  return (record, reason, address, nowMs) => {
    if (!OF_STRANGERS.has(reason)) return log.info(record, 'call refused')
    const left = admit(address, nowMs)
    if (left !== undefined) log.info({ ...record, ...left }, 'call refused')
  }
}

/**
 * Bounds the lines about refusals: a flood of them must not become one of the log.
 *
 * @returns undefined if there is no line; else the fields that it has besides: how many were left out since the last
 *   line about the address (`unlogged`), if any were
 */
export function createRefusalBound(): (
  address: string,
  nowMs: number,
) => { readonly unlogged?: number } | undefined {
  const addresses = new LRUCache<string, Address>({ max: ADDRESSES_MAX })
  let total: TokenBucket | undefined
  return (address, nowMs) => {
    total ??= new TokenBucket(TOTAL, nowMs)
    const group = addressGroup(address)
    let known = addresses.get(group)
    if (known === undefined) {
      known = { bucket: new TokenBucket(PER_ADDRESS, nowMs), unlogged: 0 }
      addresses.set(group, known)
    }
    if (!known.bucket.has(nowMs) || !total.take(nowMs)) {
      known.unlogged += 1
      return undefined
    }
    known.bucket.take(nowMs)
    const { unlogged } = known
    known.unlogged = 0
    return unlogged === 0 ? {} : { unlogged }
  }
}
