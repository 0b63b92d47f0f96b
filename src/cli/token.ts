import { EXIT, Failure } from './failure.ts'
import { readSecretFile } from './read-secret.ts'

/** Where the command line states a token. */
export interface TokenOptions {
  readonly token?: string
  readonly tokenFile?: string
}

/**
 * Returns the token of the options, else of the environment; undefined if there is none. A file keeps
 * it out of the list of processes, which everyone on the machine can read.
 *
 * @throws Failure when a file cannot be read, two sources of the same rank are given, or it cannot be a token
 */
export function givenToken(options: TokenOptions, env: NodeJS.ProcessEnv): string | undefined {
  const token = findToken(options, env)
  if (token !== undefined && !/^[!-~]*$/.test(token)) {
    throw new Failure(EXIT.usage, 'the token has a character that no token has: copy it again')
  }
  return token
}

function findToken(options: TokenOptions, env: NodeJS.ProcessEnv): string | undefined {
  const { token, tokenFile } = options
  if (token !== undefined && tokenFile !== undefined) {
    throw new Failure(EXIT.usage, '--token and --token-file are both given: remove one')
  }
  if (token !== undefined) return token
  if (tokenFile !== undefined) return readSecretFile(tokenFile, '--token-file')
  const own = env['INFLOW_TOKEN']?.trim() || undefined
  const file = env['INFLOW_TOKEN_FILE']?.trim() || undefined
  if (own !== undefined && file !== undefined) {
    throw new Failure(EXIT.usage, 'INFLOW_TOKEN and INFLOW_TOKEN_FILE are both set: remove one')
  }
  return file === undefined ? own : readSecretFile(file, 'INFLOW_TOKEN_FILE')
}
