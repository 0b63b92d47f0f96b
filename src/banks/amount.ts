/**
 * Reads naira as banks write them, never through a float: "1500.5" → 150050n.
 *
 * @returns kobo, or undefined when it is not a plain decimal with at most 15 digits before the
 * point and two after it: neither `1e3` nor `1.005` is an amount
 */
export function parseNaira(text: string): bigint | undefined {
  const match = /^(\d{1,15})(?:\.(\d{1,2}))?$/.exec(text)
  if (!match) return undefined
  return BigInt(`${match[1]}${(match[2] ?? '').padEnd(2, '0')}`)
}
