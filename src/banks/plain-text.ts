/** Bounds the regular expression below: reads this many times the length that is kept. */
const READ_FACTOR = 4

/**
 * Prepares a bank's text for storage: replaces unprintable characters by spaces (PostgreSQL rejects
 * U+0000 in a text), trims it and truncates it.
 *
 * @param charactersMax the maximum number of code points
 */
export function plainText(text: string, charactersMax: number): string {
  const read = text.slice(0, charactersMax * READ_FACTOR)
  const printable = read.replaceAll(/ *[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]+ */gu, ' ').trim()
  if (printable.length <= charactersMax) return printable
  return [...printable].slice(0, charactersMax).join('').trimEnd()
}
