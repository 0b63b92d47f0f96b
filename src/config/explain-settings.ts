import { BANK_CODES } from '../banks/bank.ts'
import { type Config, ConfigError } from './config.ts'
import type { EnvFile } from './env-file.ts'
import { listSettings, type Setting } from './setting-table.ts'
import { secretText, settingText } from './settings.ts'
import {
  findUnknown,
  readStartConfig,
  type SettingRisk,
  settingRisks,
  type UnknownSetting,
} from './start-settings.ts'

/** The source of the value of a setting. */
type Source = 'environment' | 'env-file' | 'secret file' | 'generated' | 'default'

/** A setting as the service would read it. */
export interface ExplainedSetting {
  readonly name: string
  /** Secrets are masked; empty: none. */
  readonly value: string
  readonly source: Source
  readonly default: string
}

/** The settings of a start, and their faults. */
export interface Explanation {
  readonly settings: readonly ExplainedSetting[]
  readonly unknown: readonly UnknownSetting[]
  readonly risks: readonly SettingRisk[]
  /** The lines that the start would print before it fails; empty: the settings are valid. */
  readonly faults: readonly string[]
}

/**
 * Explains the settings of a start. The settings of a live connector are listed only if the bank is live, or if they
 * are set.
 *
 * @param env the environment without the settings of the file
 */
export function explainSettings(env: NodeJS.ProcessEnv, file?: EnvFile): Explanation {
  const whole = { ...file?.values, ...env }
  const live = liveBanks(whole)
  const shown = listSettings().filter(
    ({ name, bank }) =>
      bank === undefined ||
      live.includes(bank) ||
      settingText(whole, name) !== undefined ||
      settingText(whole, `${name}_FILE`) !== undefined,
  )
  const { config, faults } = check(env, file)
  return {
    settings: shown.map((setting) => explain(setting, env, whole, config)),
    unknown: findUnknown(env, file),
    risks: config ? settingRisks(config) : [],
    faults,
  }
}

/** Finds the live banks even if other settings are invalid. */
function liveBanks(env: NodeJS.ProcessEnv): readonly string[] {
  const pairs = settingText(env, 'BANKS')?.split(',') ?? []
  return BANK_CODES.filter((code) => pairs.some((pair) => pair.trim() === `${code}=live`))
}

function explain(
  setting: Setting,
  env: NodeJS.ProcessEnv,
  whole: NodeJS.ProcessEnv,
  config: Config | undefined,
): ExplainedSetting {
  const { name, secret } = setting
  const text = settingText(whole, name)
  const common = { name, default: setting.default }
  if (text !== undefined) {
    const source = env[name] === undefined ? 'env-file' : 'environment'
    return { ...common, value: secret ? maskSecret(text) : text, source }
  }
  const stored = secret ? secretText(whole, name) : undefined
  if (stored !== undefined) return { ...common, value: maskSecret(stored), source: 'secret file' }
  const isEmbedded = secretText(whole, 'DATABASE_URL') === undefined
  if (isEmbedded && (name === 'MASTER_KEY' || name === 'ADMIN_TOKEN')) {
    return { ...common, value: maskSecret(undefined), source: 'generated' }
  }
  const value = setting.dependent ? config && DEPENDENT[name]?.(config) : setting.default
  return { ...common, value: value ?? '', source: 'default' }
}

/** The effective values of defaults that depend on other settings. */
const DEPENDENT: Readonly<Record<string, (config: Config) => string>> = {
  HTTP_INTERNAL: ({ httpInternal }) => toggle(httpInternal),
  CONSOLE: (config) => toggle(config.console.enabled),
  DATABASE_LISTEN_URL: ({ databaseUrl }) => (databaseUrl ? maskSecret(databaseUrl) : ''),
  DATABASE_POOL_SIZE: ({ workers }) => `${Math.max(11, Math.ceil(28 / workers))}`,
  BANKS: () => 'all sandbox',
  ALLOW_SIMULATED_LIVE_ACCOUNTS: () => 'off',
  RATE_LIMIT_KEY: ({ rateLimits }) => rateText(rateLimits.key),
  RATE_LIMIT_ADDRESS: ({ rateLimits }) => rateText(rateLimits.address),
  RATE_LIMIT_TOKEN: ({ rateLimits }) => rateText(rateLimits.token),
  CONNECTIONS_PER_ADDRESS_MAX: (config) => `${config.connectionsPerAddressMax}`,
}

const toggle = (isOn: boolean) => (isOn ? 'on' : 'off')

function rateText(limit: Config['rateLimits']['key']): string {
  return limit ? `${limit.perSecond}/${limit.burst}` : 'off'
}

function check(
  env: NodeJS.ProcessEnv,
  file?: EnvFile,
): {
  readonly config?: Config
  readonly faults: readonly string[]
} {
  try {
    return { config: readStartConfig(env, file), faults: [] }
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return { faults: error.faults }
  }
}

const MASK = '********'

/**
 * Masks a secret for output. A URL keeps its host and database, which operators compare. The user name
 * stays only if there is a password, because it may itself be a token.
 */
export function maskSecret(text: string | undefined): string {
  if (text === undefined) return MASK
  const parts = text.split(',').map((part) => maskUrl(part.trim()))
  return parts.every((part) => part !== undefined) ? parts.join(',') : MASK
}

function maskUrl(text: string): string | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url?.host) return undefined
  const user = url.password === '' ? MASK : `${url.username}:${MASK}`
  const credentials = url.username + url.password === '' ? '' : `${user}@`
  const query = url.search === '' ? '' : `?${MASK}`
  return `${url.protocol}//${credentials}${url.host}${url.pathname}${query}`
}
