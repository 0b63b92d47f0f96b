import { type Config, ConfigError, readConfig } from '../../config/config.ts'
import { type EnvFile, exposure, readEnvFile, withEnvFile } from '../../config/env-file.ts'
import { EXIT, Failure } from '../failure.ts'
import { note } from '../output.ts'

/** Options of a command that reads the settings of the service. */
export interface EnvFileOption {
  readonly envFile?: string
}

/** The line of its help text. */
export const ENV_FILE =
  '--env-file <file>  read settings from this file too; variables that are set win over it'

/** The environment with the settings of `--env-file`. @throws Failure if the file cannot be read */
export function environmentOf(options: EnvFileOption): NodeJS.ProcessEnv {
  return withEnvFile(process.env, openEnvFile(options))
}

/** The file of `--env-file`; warns if others can read its secrets. */
export function openEnvFile({ envFile }: EnvFileOption): EnvFile | undefined {
  if (envFile === undefined) return undefined
  try {
    const file = readEnvFile(envFile)
    const warning = exposure(file)
    if (warning !== undefined) note(`warning: ${warning}`)
    return file
  } catch (error) {
    if (error instanceof ConfigError) throw new Failure(EXIT.usage, error.message)
    throw error
  }
}

/** The settings of the service. @throws Failure with all that are invalid */
export function settingsOf(env: NodeJS.ProcessEnv): Config {
  try {
    return readConfig(env)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    const [first = '', ...others] = error.faults
    throw new Failure(EXIT.usage, first, others)
  }
}
