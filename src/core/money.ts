/** Kobo in a naira. */
const MINOR_PER_MAJOR = 100n

/** The largest amount of one payment: ten trillion naira, which a double still represents exactly. */
export const AMOUNT_MINOR_MAX = 1_000_000_000_000_000n

/** The only currency. */
export const CURRENCY = 'NGN'

/** Formats kobo as naira with two decimals: 150050n → "1500.50", -5n → "-0.05". */
export function formatAmount(amountMinor: bigint): string {
  if (amountMinor < 0n) return `-${formatAmount(-amountMinor)}`
  const text = amountMinor.toString().padStart(3, '0')
  return `${text.slice(0, -2)}.${text.slice(-2)}`
}

/** Kobo as a number of naira; the nearest double, which prints with at most two decimals. */
export function toMajorNumber(amountMinor: bigint): number {
  return Number(amountMinor) / Number(MINOR_PER_MAJOR)
}

/**
 * Parses naira without a float: "1500.5" → 150050n.
 *
 * @returns kobo, or undefined when it is not a plain non-negative decimal with at most two
 * decimals (zeros beyond them do not count)
 */
export function parseAmount(text: string): bigint | undefined {
  const match = /^(\d{1,15})(?:\.(\d{1,2})0*)?$/.exec(text)
  if (!match) return undefined
  return BigInt(match[1] as string) * MINOR_PER_MAJOR + BigInt((match[2] ?? '').padEnd(2, '0'))
}
