/** Bounds the regular expressions below: reads this many times the length that is kept. */
const READ_FACTOR = 4

/** What most texts are, and then nothing has to be replaced. */
const PLAIN = /^(?:[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)?$/

/**
 * Characters that show nothing, or change how others are shown. U+200C and U+200D stay between letters of the scripts
 * that they join, as in the contract.
 */
const INVISIBLE =
  /(?![\u200c\u200d])\p{Cf}|(?<![\u0620-\u109f])[\u200c\u200d]|[\u200c\u200d](?![\u0620-\u109f])/gu

const UNPRINTABLE = / *[\p{Cc}\p{Cn}\p{Co}\p{Cs}\p{Zl}\p{Zp}]+ */gu

/**
 * Prepares what a bank or a payer wrote for storage, so that people can read it: removes invisible characters, replaces
 * others that are not printable by spaces (PostgreSQL rejects U+0000 in a text), trims it and truncates it. Money that
 * arrived is recorded whatever is written about it; what the contract refuses in a request is left out here.
 *
 * @param charactersMax the maximum number of code points
 */
export function plainText(text: string, charactersMax: number): string {
  if (text.length <= charactersMax && PLAIN.test(text)) return text
  const read = text.slice(0, charactersMax * READ_FACTOR)
  const printable = read.replaceAll(UNPRINTABLE, ' ').replaceAll(INVISIBLE, '').trim()
  if (printable.length <= charactersMax) return printable
  const kept = [...printable].slice(0, charactersMax).join('')
  return kept.replace(/[\s\u200c\u200d]+$/u, '')
}
