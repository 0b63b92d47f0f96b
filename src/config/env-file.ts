import { readFileSync, statSync } from 'node:fs'
import { parseArgs, parseEnv } from 'node:util'
import { ConfigError } from './config.ts'
import { listSettings } from './setting-table.ts'

/** The settings of a file in the format of Node's `--env-file`. */
export interface EnvFile {
  readonly path: string
  readonly values: Readonly<Record<string, string>>
  /** The names of the file's secrets, if other users of the machine can read the file. */
  readonly exposed: readonly string[]
}

/** @throws ConfigError if the file cannot be read */
export function readEnvFile(path: string): EnvFile {
  let text: string
  let mode: number
  try {
    text = readFileSync(path, 'utf8')
    mode = statSync(path).mode
  } catch (error) {
    throw new ConfigError([`--env-file cannot be read: ${(error as Error).message}`])
  }
  const values = parseEnv(text) as Record<string, string>
  const isExposed = (mode & 0o077) !== 0
  const secrets = listSettings().filter(({ name, secret }) => secret && values[name])
  return { path, values, exposed: isExposed ? secrets.map(({ name }) => name) : [] }
}

/**
 * Adds the settings of the file in the arguments of a start to the environment.
 *
 * @returns the file; undefined: the arguments name none
 * @throws ConfigError if the file cannot be read, or for any other argument
 */
export function loadEnvFile(env: NodeJS.ProcessEnv, argv: readonly string[]): EnvFile | undefined {
  if (argv.length === 0) return undefined
  const file = readEnvFile(pathIn(argv))
  Object.assign(env, withEnvFile(env, file))
  return file
}

function pathIn(argv: readonly string[]): string {
  try {
    const options = { 'env-file': { type: 'string' } } as const
    const path = parseArgs({ args: [...argv], options }).values['env-file']
    if (path) return path
  } catch {
    // Reported below, because the text of Node is about its own API.
  }
  throw new ConfigError(['the only option of a start is --env-file <file>'])
}

/** The environment with the settings of the file. As with Node's own option, variables that are set take precedence. */
export function withEnvFile(env: NodeJS.ProcessEnv, file: EnvFile | undefined): NodeJS.ProcessEnv {
  return { ...file?.values, ...env }
}

/** The warning about a file whose secrets other users can read; undefined: no warning. */
export function exposure({ path, exposed }: EnvFile): string | undefined {
  if (exposed.length === 0) return undefined
  return `other users can read ${exposed.join(', ')} in ${path}: chmod 600 ${path}`
}
