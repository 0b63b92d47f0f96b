const INT64_MAX = 2n ** 63n - 1n

/**
 * A sum of money as the contract has it. Strangers can add up more than an int64 holds, with payments in test mode;
 * it is then the largest or the smallest one, which no real sum of money reaches.
 */
export function toInt64(sumMinor: bigint): bigint {
  if (sumMinor > INT64_MAX) return INT64_MAX
  return sumMinor < -INT64_MAX ? -INT64_MAX : sumMinor
}
