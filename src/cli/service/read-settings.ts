import { type Config, ConfigError, readConfig } from '../../config/config.ts'
import { EXIT, Failure } from '../failure.ts'

/** The settings of the service. @throws Failure when one is invalid */
export function readSettings(env: NodeJS.ProcessEnv): Config {
  try {
    return readConfig(env)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    const [first = '', ...others] = error.faults
    throw new Failure(EXIT.usage, first, others)
  }
}
