import { styleText } from 'node:util'
import type { Command } from 'commander'
import {
  type ExplainedSetting,
  type Explanation,
  explainSettings,
} from '../../config/explain-settings.ts'
import { unknownText } from '../../config/unknown-settings.ts'
import { EXIT, Failure } from '../failure.ts'
import { type Column, jsonText, note, print, table } from '../output.ts'
import { addVerbs, local } from '../verb.ts'
import { ENV_FILE, type EnvFileOption, openEnvFile } from './env-file.ts'

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
    // Those that the start refuses are among the faults.
    ...unknown
      .filter(({ refused }) => !refused)
      .map((setting) => `${warning} ${unknownText(setting)}`),
    ...risks.map(({ found, advice }) => `${warning} ${found}: ${advice}`),
  ]
}
