/**
 * Parses a naira amount as banks write it, without floats: "1500.5" → 150050n.
 *
 * @returns kobo; undefined unless the text is a plain decimal with at most 15 integer digits and
 * two decimals: `1e3` and `1.005` are rejected
 */
export function parseNaira(text: string): bigint | undefined {
  const match = /^(\d{1,15})(?:\.(\d{1,2}))?$/.exec(text)
  if (!match) return undefined
  return BigInt(`${match[1]}${(match[2] ?? '').padEnd(2, '0')}`)
}
