/**
 * Words that many names share: titles, and what kind of company it is. Two of them in common do not make two
 * names alike.
 */
const COMMON_WORDS: ReadonlySet<string> = new Set(
  (
    'MR MRS MS MISS MASTER DR PROF REV PASTOR ENGR BARR CHIEF PRINCE PRINCESS ALHAJI ALHAJA MALLAM HAJIA SIR LADY ' +
    'AND THE OF FOR LTD LIMITED PLC LLC INC CO COMPANY NIG NIGERIA ENT ENTERPRISE ENTERPRISES VENTURES GLOBAL ' +
    'INTERNATIONAL SERVICES GROUP HOLDINGS'
  ).split(' '),
)

/**
 * The words of a name that distinguish it, in upper case and without accents: "Mr. Ọbi, Àdá K." → OBI, ADA. Words
 * of one letter are initials.
 */
export function wordsOf(name: string): ReadonlySet<string> {
  const words = name
    .normalize('NFKD')
    .replaceAll(/\p{M}/gu, '')
    .toUpperCase()
    .split(/[^\p{L}\p{N}]+/u)
  return new Set(words.filter((word) => [...word].length >= 2 && !COMMON_WORDS.has(word)))
}

/** How many words two names must have in common. */
export const COMMON_MIN = 2

/** Whether two names have two words in common. */
export function areNamesAlike(a: string, b: string): boolean {
  const words = wordsOf(b)
  return [...wordsOf(a)].filter((word) => words.has(word)).length >= COMMON_MIN
}
