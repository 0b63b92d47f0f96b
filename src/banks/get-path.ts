/**
 * The text at a place of a bank's JSON, as it stands there; a number is its token (`parseBankJson`).
 *
 * @param path names joined by dots: `customer.account.number`
 * @returns empty when there is no text
 */
export function getPath(body: unknown, path: string): string {
  let at = body
  for (const name of path.split('.')) {
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, name)) return ''
    at = (at as Readonly<Record<string, unknown>>)[name]
  }
  return typeof at === 'string' ? at : ''
}
