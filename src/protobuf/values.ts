import type { DescField } from '@bufbuild/protobuf'
import type { Timestamp } from '@bufbuild/protobuf/wkt'
import { invalidFields } from '../core/errors.ts'
import { INT64_MAX } from '../core/money.ts'

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

/** Converts a time that may be absent. @param timeMs milliseconds since the Unix epoch */
export function toOptionalTimestamp(timeMs: number | null | undefined): Timestamp | undefined {
  return timeMs == null ? undefined : toTimestamp(timeMs)
}

/**
 * Converts a protobuf Timestamp to milliseconds since the Unix epoch, which is what is stored. It truncates, where
 * the library's `timestampMs` rounds: a payment made a nanosecond before an expiry is not late.
 */
export function fromTimestamp({ seconds, nanos }: Pick<Timestamp, 'seconds' | 'nanos'>): number {
  return Number(seconds) * 1000 + Math.floor(nanos / 1e6)
}

/**
 * The mode of a request: live mode unless it says otherwise, by `live` or by the deprecated `test`. The
 * console and the command line set `test`, which services of all versions know.
 *
 * @throws Fault validation_failed if they contradict each other
 */
export function isLive({
  live,
  test,
}: {
  readonly live?: boolean | undefined
  readonly test: boolean
}): boolean {
  if (live === true && test) {
    throw invalidFields([{ field: 'live', message: 'must not be true with test' }])
  }
  return live ?? !test
}

/**
 * A sum of money as the contract has it. Strangers can add up more than an int64 holds, with payments in test mode;
 * it is then the largest or the smallest one, which no real sum of money reaches.
 */
export function toInt64(sumMinor: bigint): bigint {
  if (sumMinor > INT64_MAX) return INT64_MAX
  return sumMinor < -INT64_MAX ? -INT64_MAX : sumMinor
}

type Specified<Name extends string> = Exclude<Name, 'UNSPECIFIED'>

/** The names of enum values, which are also our names, without UNSPECIFIED; undefined if no value is given. */
export function enumNames<Name extends string>(
  values: Readonly<Record<Name, number>>,
  found: readonly number[],
): readonly Specified<Name>[] | undefined {
  if (found.length === 0) return undefined
  return (Object.keys(values) as Name[]).filter(
    (name): name is Specified<Name> => name !== 'UNSPECIFIED' && found.includes(values[name]),
  )
}

/** The name of an enum value; undefined for UNSPECIFIED. */
export function enumName<Name extends string>(
  values: Readonly<Record<Name, number>>,
  value: number,
): Specified<Name> | undefined {
  return enumNames(values, [value])?.[0]
}

/**
 * The name of a field of a request in REST: that of its JSON, but `page_size` and `page_token` in every request, as the
 * specification has them. What JSON calls them is accepted too.
 */
export function restNameOf({ name, jsonName }: Pick<DescField, 'name' | 'jsonName'>): string {
  return /^page_(size|token)$/.test(name) ? name : jsonName
}
