/** The values of a statement whose conditions vary. */
interface Binding {
  readonly values: unknown[]
  /** Adds a value. @returns its placeholder, such as `$3` */
  readonly bind: (value: unknown) => string
}

/** @param first the values of `$1`, `$2` and so on, which every form of the statement has */
export function bindValues(...first: unknown[]): Binding {
  const values = [...first]
  return { values, bind: (value) => `$${values.push(value)}` }
}
