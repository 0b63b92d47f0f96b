import type { Timestamp } from '@bufbuild/protobuf/wkt'

/**
 * A time as protobuf has it. The library reads the schema for each message it makes; what a payment
 * tells of has four times, so they, and the messages around them, are written down as they are.
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
