import { type Delivery, DeliveryStatus } from '../../../gen/inflow/webhook/v1/delivery_pb.ts'
import { msOf } from '../format/time.ts'
import type { Tone } from '../ui/values.tsx'

const STATES: ReadonlyMap<DeliveryStatus, { readonly tone: Tone; readonly label: string }> =
  new Map([
    [DeliveryStatus.PENDING, { tone: 'waiting', label: 'Pending' }],
    [DeliveryStatus.DELIVERED, { tone: 'good', label: 'Delivered' }],
    [DeliveryStatus.FAILED, { tone: 'bad', label: 'Failed' }],
  ])

/** The state of a delivery in a word. */
export function stateOfDelivery({ status }: Delivery) {
  return STATES.get(status) ?? { tone: 'neutral' as const, label: 'Unknown' }
}

/** A delivery that may have an attempt in progress is read again this soon. */
const SOON_MS = 2_000

/** During an attempt, a delivery is due when its lease of a minute ends: it looks like one that waits. */
const LEASE_MS = 75_000

/**
 * When deliveries are to be read again, in milliseconds: attempts have no stream. False: none of them is about to
 * change.
 */
export function nextReadMs(deliveries: readonly Delivery[], nowMs: number): number | false {
  const waits = deliveries
    .filter(({ status }) => status === DeliveryStatus.PENDING)
    .map(({ dueAt }) => (msOf(dueAt) ?? nowMs) - nowMs)
  if (waits.length === 0) return false
  return Math.max(SOON_MS, Math.min(...waits) - LEASE_MS)
}
