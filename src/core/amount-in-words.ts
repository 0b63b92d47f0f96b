const ONES = [
  ...['zero', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight', 'nine', 'ten'],
  ...['eleven', 'twelve', 'thirteen', 'fourteen', 'fifteen', 'sixteen', 'seventeen', 'eighteen'],
  'nineteen',
]

const TENS = ['', '', 'twenty', 'thirty', 'forty', 'fifty', 'sixty', 'seventy', 'eighty', 'ninety']

const SCALES = ['', 'thousand', 'million', 'billion', 'trillion', 'quadrillion', 'quintillion']

/**
 * An amount as people say it, for the operator who approves it: 450_000_050n → "four million, five hundred thousand naira, fifty
 * kobo".
 *
 * @param amountMinor in kobo, not negative, below 2^63
 */
export function amountInWords(amountMinor: bigint): string {
  const kobo = Number(amountMinor % 100n)
  const naira = `${words(amountMinor / 100n)} naira`
  return kobo === 0 ? naira : `${naira}, ${below1000(kobo)} kobo`
}

function words(value: bigint): string {
  if (value === 0n) return 'zero'
  const groups: string[] = []
  let rest = value
  for (const scale of SCALES) {
    const group = Number(rest % 1000n)
    if (group > 0) groups.unshift(`${below1000(group)} ${scale}`.trim())
    rest /= 1000n
  }
  return groups.join(', ')
}

function below1000(value: number): string {
  const hundreds = Math.floor(value / 100)
  const rest = value % 100
  if (hundreds === 0) return below100(rest)
  const text = `${ONES[hundreds]} hundred`
  return rest === 0 ? text : `${text} and ${below100(rest)}`
}

function below100(value: number): string {
  if (value < 20) return `${ONES[value]}`
  const unit = value % 10
  return unit === 0
    ? `${TENS[Math.floor(value / 10)]}`
    : `${TENS[Math.floor(value / 10)]}-${ONES[unit]}`
}
