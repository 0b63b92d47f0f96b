/**
 * Returns the text at a path of a bank's JSON, unchanged; a number is the text of its token (see
 * `parseBankJson`).
 *
 * @param path names joined by dots: `customer.account.number`
 * @returns an empty string if there is no text
 */
export function getPath(body: unknown, path: string): string {
  let value = body
  for (const name of path.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return ''
    value = (value as Readonly<Record<string, unknown>>)[name]
  }
  return typeof value === 'string' ? value : ''
}
