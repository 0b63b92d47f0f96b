import { type Config, ConfigError, readConfig } from './config.ts'
import { type EnvFile, withEnvFile } from './env-file.ts'
import { settingText } from './settings.ts'
import { findUnknown, unknownText } from './unknown-settings.ts'

/**
 * Reads the settings of a start, which refuses more than other commands do: names that only look like settings, and so
 * would have no effect, and a production start that would become a demo with an embedded database.
 *
 * @param env with or without the settings of the file
 * @throws ConfigError with every fault
 */
export function readStartConfig(env: NodeJS.ProcessEnv, file?: EnvFile): Config {
  const refused = findUnknown(env, file).filter((unknown) => unknown.refused)
  const missing = missingDatabase(env, file)
  const faults = [...refused.map(unknownText), ...(missing === undefined ? [] : [missing])]
  try {
    const config = readConfig(withEnvFile(env, file))
    if (faults.length === 0) return config
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    faults.push(...error.faults)
  }
  throw new ConfigError(faults)
}

/**
 * The fault of a production start that names neither a database nor a data folder. The unit, the image and what runs
 * it set NODE_ENV, and a developer needs no file of settings.
 *
 * @returns undefined: there is none
 */
export function missingDatabase(env: NodeJS.ProcessEnv, file?: EnvFile): string | undefined {
  const whole = withEnvFile(env, file)
  // Node has an option of the same name, which leaves no trace in the environment.
  const hasFile = file !== undefined || process.execArgv.some((each) => /^--env-file/.test(each))
  const isProduction = hasFile || settingText(whole, 'NODE_ENV') === 'production'
  const names = ['DATABASE_URL', 'DATABASE_URL_FILE', 'DATA_DIR']
  if (!isProduction || names.some((name) => settingText(whole, name) !== undefined))
    return undefined
  return (
    'DATABASE_URL is required in production (NODE_ENV=production, or --env-file): set it, or set DATA_DIR ' +
    'to use the embedded database on purpose'
  )
}
