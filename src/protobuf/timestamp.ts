import type { Timestamp } from '@bufbuild/protobuf/wkt'

/**
 * Converts a time to a protobuf Timestamp. The library's `create` reads the schema for each message,
 * which costs too much for the four times of a payment: a literal is cheaper.
 *
 * @param timeMs milliseconds since the Unix epoch
 */
export function toTimestamp(timeMs: number): Timestamp {
  const seconds = Math.floor(timeMs / 1000)
  return {
    $typeName: 'google.protobuf.Timestamp',
    seconds: BigInt(seconds),
    nanos: Math.round((timeMs - seconds * 1000) * 1e6),
  }
}

/**
 * Converts a protobuf Timestamp to milliseconds since the Unix epoch, which is what is stored. It truncates, where
 * the library's `timestampMs` rounds: a payment made a nanosecond before an expiry is not late.
 */
export function fromTimestamp({ seconds, nanos }: Pick<Timestamp, 'seconds' | 'nanos'>): number {
  return Number(seconds) * 1000 + Math.floor(nanos / 1e6)
}
