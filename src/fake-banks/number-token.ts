/** Writes a number into JSON as exactly this text: a float would lose digits of large amounts. */
export function numberToken(text: string): unknown {
  // Younger than the types of `JSON`.
  return (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON(text)
}
