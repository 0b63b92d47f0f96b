/** Kobo in a naira. */
const MINOR_PER_MAJOR = 100n

/** The largest amount of one payment: ten trillion naira, which a double still represents exactly. */
export const AMOUNT_MINOR_MAX = 1_000_000_000_000_000n

/** The largest amount or sum of an int64, in the contract and in the database. */
export const INT64_MAX = 2n ** 63n - 1n

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
 * @returns kobo; undefined if the text is not a plain non-negative decimal with at most two
 * decimals (further zeros do not count)
 */
export function parseAmount(text: string): bigint | undefined {
  const match = /^(\d{1,15})(?:\.(\d{1,2})0*)?$/.exec(text)
  if (!match) return undefined
  return BigInt(match[1] as string) * MINOR_PER_MAJOR + BigInt((match[2] ?? '').padEnd(2, '0'))
}

const SMALL = `zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
  fifteen sixteen seventeen eighteen nineteen`.split(/\s+/)

const TENS = ['twenty', 'thirty', 'forty', 'fifty', 'sixty', 'seventy', 'eighty', 'ninety']

const LARGE: readonly (readonly [bigint, string])[] = [
  [10n ** 15n, 'quadrillion'],
  [10n ** 12n, 'trillion'],
  [10n ** 9n, 'billion'],
  [10n ** 6n, 'million'],
  [1_000n, 'thousand'],
]

/**
 * An amount of kobo in words: `one thousand, five hundred naira, fifty kobo`. In figures, an extra digit is easily
 * overlooked.
 */
export function amountInWords(amountMinor: bigint): string {
  const naira = `${numberInWords(amountMinor / 100n)} naira`
  const kobo = amountMinor % 100n
  return kobo === 0n ? naira : `${naira}, ${numberInWords(kobo)} kobo`
}

function numberInWords(value: bigint): string {
  if (value < 20n) return SMALL[Number(value)] ?? ''
  if (value < 100n) {
    const tens = TENS[Number(value / 10n) - 2] ?? ''
    return value % 10n === 0n ? tens : `${tens}-${SMALL[Number(value % 10n)]}`
  }
  const [unit, name] = LARGE.find(([least]) => value >= least) ?? [100n, 'hundred']
  const head = `${numberInWords(value / unit)} ${name}`
  const rest = value % unit
  if (rest === 0n) return head
  return `${head}${rest < 100n ? ' and ' : ', '}${numberInWords(rest)}`
}
