/** A rule that is broken on purpose: some test of the folder that mirrors the source must notice. */
export interface Mutation {
  /** What the broken rule leads to. Unique. */
  readonly name: string
  readonly file: string
  /** Occurs exactly once in the file. */
  readonly find: string
  readonly replace: string
  /** The test files of which one must notice; the likeliest first. */
  readonly tests: readonly string[]
  /** Why no test can notice it, in one sentence; absent: one must. */
  readonly equivalent?: string
}

/** The model of the money, for what no example has. */
export const MODEL = ['test/model/money.test.ts', 'test/model/races.test.ts'] as const

/** A function that lists the mutations of one file. @param tests the test files that must notice */
export function inFile(file: string, ...tests: readonly string[]) {
  return (name: string, find: string, replace: string, equivalent?: string): Mutation => ({
    ...{ name, file, find, replace, tests },
    ...(equivalent !== undefined && { equivalent }),
  })
}
