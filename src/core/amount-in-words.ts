const SMALL = [
  ...['zero', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten'],
  ...['eleven', 'twelve', 'thirteen', 'fourteen', 'fifteen', 'sixteen', 'seventeen', 'eighteen'],
  'nineteen',
]

const TENS = ['twenty', 'thirty', 'forty', 'fifty', 'sixty', 'seventy', 'eighty', 'ninety']

const LARGE: readonly (readonly [bigint, string])[] = [
  [10n ** 15n, 'quadrillion'],
  [10n ** 12n, 'trillion'],
  [10n ** 9n, 'billion'],
  [10n ** 6n, 'million'],
  [1_000n, 'thousand'],
]

/**
 * An amount of kobo in words: `one thousand, five hundred naira, fifty kobo`. A digit too many is easily overlooked in
 * figures.
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
