import type { Noun } from './command-line.ts'
import { EXIT, Failure } from './failure.ts'

const NAMES = ['serve', 'init', 'config', 'migrate', 'master-key', 'doctor', 'health', 'fake-banks']

/** The nouns that only a checkout has. Help does not list them, and using one says where it is. */
export const ABSENT_NOUNS: readonly Noun[] = NAMES.map((name) => ({
  name,
  summary: 'in the folder of the service only',
  hidden: true,
  load: async () => (noun) => {
    noun
      .argument('[words...]')
      .helpOption(false)
      .allowUnknownOption()
      .action(() => {
        throw new Failure(
          EXIT.usage,
          `\`inflow ${name}\` works on the service's own machine: run it in the folder of the service`,
        )
      })
  },
}))
