import { styleText } from 'node:util'
import type { Command } from 'commander'
import { type Config, ConfigError, readConfig } from '../../config/config.ts'
import { type EnvFile, exposure, readEnvFile, withEnvFile } from '../../config/env-file.ts'
import {
  type ExplainedSetting,
  type Explanation,
  explainSettings,
} from '../../config/explain-settings.ts'
import { unknownText } from '../../config/start-settings.ts'
import { type Column, EXIT, Failure, jsonText, note, print, table } from '../output.ts'
import { addVerbs, local } from '../verb.ts'

/** Options of a command that reads the settings of the service. */
export interface EnvFileOption {
  readonly envFile?: string
}

/** The help line of the option. */
export const ENV_FILE =
  '--env-file <file>  read settings from this file too; variables that are set win over it'

interface CheckOptions extends EnvFileOption {
  readonly json?: boolean
}

const COLUMNS: readonly Column<ExplainedSetting>[] = [
  { title: 'Setting', of: ({ name }) => name },
  { title: 'Value', of: ({ value }) => value },
  { title: 'Source', of: ({ source }) => source },
  { title: 'Default', of: (setting) => setting.default },
]

const CONFIG_HELP = `
  check: show every setting with its value, source and default, secrets masked; name unknown and misspelt ones, and risks; exits with 1 if the service would not start with them
  ${ENV_FILE}
  --json  print one JSON document: {"settings", "unknown", "risks", "faults"}
  Example: config check --env-file inflow.env`

export function config(noun: Command): void {
  addVerbs(noun, CONFIG_HELP, { check: local(checkSettings) })
}

function checkSettings({ json, ...options }: CheckOptions): void {
  const found = explainSettings(process.env, openEnvFile(options))
  if (json) print(jsonText(found, 2))
  else {
    print(table(found.settings, COLUMNS))
    for (const line of remarks(found)) note(line)
  }
  const { faults } = found
  if (faults.length > 0) throw new Failure(EXIT.refused, 'the service does not start', faults)
  if (!json) note('All settings are valid.')
}

function remarks({ unknown, risks }: Explanation): readonly string[] {
  const warning = styleText('yellow', 'warning:', { stream: process.stderr })
  return [
    // Unknown settings that prevent a start are already among the faults.
    ...unknown
      .filter(({ refused }) => !refused)
      .map((setting) => `${warning} ${unknownText(setting)}`),
    ...risks.map(({ found, advice }) => `${warning} ${found}: ${advice}`),
  ]
}

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

/** The settings of the service. @throws Failure naming all invalid settings */
export function settingsOf(env: NodeJS.ProcessEnv): Config {
  try {
    return readConfig(env)
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    const [first = '', ...others] = error.faults
    throw new Failure(EXIT.usage, first, others)
  }
}
