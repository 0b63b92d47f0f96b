/** Formats kobo as naira: `₦1,500.50`. Exact for any bigint. */
export function naira(amountMinor: bigint): string {
  const isNegative = amountMinor < 0n
  const minor = isNegative ? -amountMinor : amountMinor
  const whole = String(minor / 100n).replace(/\B(?=(\d{3})+$)/g, ',')
  return `${isNegative ? '−' : ''}₦${whole}.${String(minor % 100n).padStart(2, '0')}`
}

/** Formats kobo in at most six characters for tiles and axes: `₦1.2m`. */
export function shortNaira(amountMinor: bigint): string {
  return `₦${shortCount(amountMinor / 100n)}`
}

const STEPS: readonly (readonly [bigint, string])[] = [
  [1_000_000_000_000n, 'tn'],
  [1_000_000_000n, 'bn'],
  [1_000_000n, 'm'],
  [1_000n, 'k'],
]

/** Formats a count in few characters, rounded: `12.3k`. */
export function shortCount(count: bigint): string {
  const sign = count < 0n ? '-' : ''
  const size = count < 0n ? -count : count
  const [unit, name] = STEPS.find(([least]) => size >= least) ?? [1n, '']
  const digit = unit === 1n || size >= 100n * unit ? unit : unit / 10n
  const rounded = ((size + digit / 2n) / digit) * digit
  // 999.6k is shown as 1m.
  if (STEPS.some(([larger]) => larger > unit && rounded >= larger))
    return sign + shortCount(rounded)
  const tenths = unit === 1n ? 0n : (rounded % unit) / (unit / 10n)
  return `${sign}${rounded / unit}${tenths === 0n ? '' : `.${tenths}`}${name}`
}

/** Formats a count with thousands separated. */
export function count(value: bigint | number): string {
  return String(value).replace(/\B(?=(\d{3})+$)/g, ',')
}

/** Reads naira as typed, such as `1,500.50`. @returns kobo; undefined if it is not an amount */
export function parseNaira(text: string): bigint | undefined {
  const match = /^₦?\s*(\d{1,3}(?:,\d{3})+|\d+)(?:\.(\d{1,2}))?$/.exec(text.trim())
  if (match?.[1] === undefined) return undefined
  return BigInt(match[1].replaceAll(',', '')) * 100n + BigInt((match[2] ?? '').padEnd(2, '0'))
}
