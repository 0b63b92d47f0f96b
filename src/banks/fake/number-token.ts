/** Returns a JSON number with exactly this text: a float would lose digits of large amounts. */
export function numberToken(text: string): unknown {
  // The types of `JSON` do not have `rawJSON` yet.
  return (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON(text)
}
