/** A rule that is broken on purpose: a test must notice. */
export interface Mutation {
  /** What the broken rule leads to. Unique. */
  readonly name: string
  readonly file: string
  /** Occurs exactly once in the file. */
  readonly find: string
  readonly replace: string
  /** The test files of which one must notice; the likeliest first. */
  readonly tests: readonly string[]
}

/** The mutations of one file, each as its name, the text to find and its replacement. */
export function inFile(
  file: string,
  tests: readonly string[],
  mutations: readonly (readonly [name: string, find: string, replace: string])[],
): readonly Mutation[] {
  return mutations.map(([name, find, replace]) => ({ name, file, find, replace, tests }))
}
