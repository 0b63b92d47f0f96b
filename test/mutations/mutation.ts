/** A rule that is broken on purpose: a test must notice. */
export interface Mutation {
  /** What the broken rule leads to. Unique. */
  readonly name: string
  readonly file: string
  /** Occurs exactly once in the file. */
  readonly find: string
  readonly replace: string
  /** Folders and files of tests, of which one must notice; the likeliest first. */
  readonly tests: readonly string[]
}

/** By what the broken rule leads to. */
type Changes = Readonly<Record<string, readonly [find: string, replace: string]>>

/**
 * The mutations of some files. The tests of a file's domain must notice them, or others.
 *
 * @param domain of the migrations
 */
export function mutationsOf(
  domain: string,
  others: readonly string[],
  changes: Readonly<Record<string, Changes>>,
): readonly Mutation[] {
  return Object.entries(changes).flatMap(([file, ofFile]) => {
    const [, folder] = file.split('/')
    const tests = [`test/${folder === 'postgres' ? domain : folder}/`, ...others]
    return Object.entries(ofFile).map(([name, [find, replace]]) => {
      return { name, file, find, replace, tests }
    })
  })
}
