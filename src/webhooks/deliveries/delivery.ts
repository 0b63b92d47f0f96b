/** The state of a delivery: see the diagram of DeliveryStatus in delivery.proto. */
export type DeliveryState = 'PENDING' | 'DELIVERED' | 'FAILED'

/** The position and the endpoint of a delivery: its key in lists. */
export interface DeliveryPlace {
  readonly position: bigint
  readonly endpointId: string
}

/** A delivery as it is stored. Times in milliseconds since the Unix epoch. */
export interface StoredDelivery {
  readonly id: string
  readonly endpointId: string
  readonly endpointUrl: string
  readonly endpointDescription: string
  readonly position: bigint
  /** Empty, like the kind, once retention has deleted the event. */
  readonly eventId: string
  readonly eventKind: string
  /** The event, encoded; null once retention has deleted it. */
  readonly event: Uint8Array | null
  readonly state: DeliveryState
  readonly attempts: number
  readonly createdAtMs: number
  /** Null unless it is pending. */
  readonly dueAtMs: number | null
  readonly completedAtMs: number | null
  readonly failure: string
  readonly latestAttempt: StoredAttempt | null
}

/** A delivery that was not acknowledged, so the later deliveries of its ordered endpoint wait for it. */
export interface OrderBlock {
  readonly endpointId: string
  readonly deliveryId: string
  readonly attempts: number
  readonly error: string
  readonly dueAtMs: number
  /** Counted up to a bound. */
  readonly waiting: number
}

/** One request and its outcome. */
export interface StoredAttempt {
  readonly number: number
  readonly startedAtMs: number
  readonly latencyMs: number
  /** HTTP status; 0 without a response. */
  readonly status: number
  readonly responseBody: string
  readonly error: string
}

/** Identifies a delivery. The position says in which partition it is. */
export interface DeliveryKey {
  readonly id: string
  readonly position: bigint
}

/** The first and the last position. @param keys at least one */
export function positionRange(keys: readonly DeliveryKey[]): [bigint, bigint] {
  const sorted = keys.map(({ position }) => position).sort((a, b) => (a < b ? -1 : 1))
  return [sorted[0] ?? 0n, sorted.at(-1) ?? 0n]
}
