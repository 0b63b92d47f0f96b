/** Long enough for any text that is kept, with blanks around it; short enough to be searched. */
const READ_CHARACTERS = 4

/**
 * A bank's text as it is stored: with a blank for what is not printable (PostgreSQL refuses U+0000
 * in a text), trimmed, and cut.
 *
 * @param charactersMax how many code points are kept
 */
export function plainText(text: string, charactersMax: number): string {
  const read = text.slice(0, charactersMax * READ_CHARACTERS)
  const printable = read.replaceAll(/ *[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]+ */gu, ' ').trim()
  if (printable.length <= charactersMax) return printable
  return [...printable].slice(0, charactersMax).join('').trimEnd()
}
