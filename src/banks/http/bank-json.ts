/**
 * Parses a bank's JSON. Each number becomes the text of its token, so that money never passes
 * through a float: `{"amount":120.10}` → `{amount: '120.10'}`.
 *
 * @returns undefined for invalid JSON
 */
export function parseBankJson(text: string): unknown {
  try {
    return JSON.parse(text, withTokens as (key: string, value: unknown) => unknown)
  } catch {
    return undefined
  }
}

/** The types of `JSON.parse` do not have the third argument yet. */
function withTokens(_key: string, value: unknown, context: { readonly source: string }): unknown {
  return typeof value === 'number' ? context.source : value
}
