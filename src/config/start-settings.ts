import { BANK_CODES } from '../banks/bank.ts'
import { type Config, ConfigError, readConfig } from './config.ts'
import { type EnvFile, withEnvFile } from './env-file.ts'
import { COMMAND_LINE_SETTINGS, listSettings } from './setting-table.ts'
import { settingText } from './settings.ts'

/**
 * Reads the settings of a start. A start refuses more than other commands do: names that look like settings but would have no
 * effect, and a production start that would use an embedded database by mistake.
 *
 * @param env the environment with or without the settings of the file
 * @throws ConfigError with all faults
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
 * The fault of a production start that names neither a database nor a data folder. NODE_ENV shows production, because the
 * systemd unit and the image set it; so does a file of settings, which developers do not need.
 *
 * @returns undefined: no fault
 */
export function missingDatabase(env: NodeJS.ProcessEnv, file?: EnvFile): string | undefined {
  const whole = withEnvFile(env, file)
  // Node itself has an option of this name, which leaves no trace in the environment.
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

/** A variable that the service does not read, although it looks like a setting. */
export interface UnknownSetting {
  readonly name: string
  /** The setting that was probably meant; undefined: no setting is similar. */
  readonly similar: string | undefined
  /** Whether the variable can only be meant for Inflow. The start is then refused, because it would ignore the variable. */
  readonly refused: boolean
}

/** Names with these prefixes are meant for Inflow. Prefixes such as `HTTP_` or `WEBHOOK_` are used by other programs too. */
const OURS = new RegExp(
  `^(INFLOW|RECONCILE|RECORD|MASTER_KEY|ADMIN_TOKEN|ALLOW_SIMULATED|BANK_(${BANK_CODES.join('|')}))_`,
)

/** Variables in the examples of the guides, which callers of the service set. */
const OF_CALLERS = ['INFLOW_URL', 'INFLOW_SECRET_KEY', 'INFLOW_WEBHOOK_SECRET']

/** Shorter names are not compared, because they are similar to too many others. */
const SIMILAR_LENGTH_MIN = 5

/** A name of at least this length is unlikely to be similar to one of ours by chance. */
const DISTINCT_LENGTH_MIN = 11

/**
 * Finds variables that look like settings but are not: misspelt names, unknown names with a prefix of ours, and all
 * other names in the file, which is only for Inflow.
 *
 * @param env the environment with or without the settings of the file
 */
export function findUnknown(env: NodeJS.ProcessEnv, file?: EnvFile): readonly UnknownSetting[] {
  const known = new Set<string>([...COMMAND_LINE_SETTINGS, ...OF_CALLERS])
  for (const { name, secret } of listSettings()) {
    known.add(name)
    if (secret) known.add(`${name}_FILE`)
  }
  const whole = { ...file?.values, ...env }
  const isSet = (name: string) => (whole[name] ?? whole[`${name}_FILE`] ?? '') !== ''
  const names = Object.keys(whole).filter((name) => !known.has(name))
  return names.sort().flatMap((name) => {
    if (isServiceLink(name, whole[name] ?? '')) return []
    const isOurs = OURS.test(name)
    const similar = findSimilar(name, known)
    const isInFile = file?.values[name] !== undefined
    // If the similar setting is set too, the name is not a misspelling of it: DATABASE_SSL, for example.
    const isMisspelt = similar !== undefined && !isSet(similar)
    if (!isOurs && !isMisspelt && !isInFile) return []
    const isDistinct = isInFile || name.length >= DISTINCT_LENGTH_MIN
    // OpenTelemetry specifies more OTEL_ variables than the service reads.
    const refused = isOurs || (isMisspelt && isDistinct && !name.startsWith('OTEL_'))
    return [{ name, similar: isOurs || isMisspelt ? similar : undefined, refused }]
  })
}

/** The warning about an unknown variable that does not prevent the start. */
export function unknownRisk({ name, similar }: UnknownSetting): SettingRisk {
  const advice = similar === undefined ? 'remove it' : `did you mean ${similar}?`
  return { found: `${name} is not a setting`, advice }
}

/** The warning in one line. */
export function unknownText({ name, similar }: UnknownSetting): string {
  return `${name} is not a setting${similar === undefined ? '' : `; did you mean ${similar}?`}`
}

/** Whether Kubernetes has set a variable: for a service named `inflow`, it sets INFLOW_PORT and others in all containers. */
function isServiceLink(name: string, value: string): boolean {
  if (/_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)$/.test(name)) return true
  return name.endsWith('_PORT') && /^(tcp|udp|sctp):/.test(value)
}

/**
 * Finds the most similar known name. It may differ by one or two letters, by case, or by singular and plural; names with a
 * prefix of ours may differ by up to half of their letters.
 */
function findSimilar(name: string, known: ReadonlySet<string>): string | undefined {
  if (name.length < SIMILAR_LENGTH_MIN) return undefined
  const upper = name.toUpperCase()
  const plain = upper.replace(/^INFLOW_/, '')
  if (known.has(plain)) return plain
  const [prefix] = OURS.exec(upper) ?? []
  let nearest: string | undefined
  let least = Number.POSITIVE_INFINITY
  const stemmed = stem(upper)
  for (const candidate of known) {
    const isFamily = prefix !== undefined && candidate.startsWith(prefix)
    const longer = Math.max(candidate.length, name.length)
    const letters = name.length < 12 ? 1 : 2
    const allowed = isFamily ? Math.max(letters, (longer - prefix.length) / 2) : letters
    // A cheap check first: almost all names differ too much in their length or letters.
    if (Math.abs(candidate.length - name.length) > allowed + 2) continue
    const other = stem(candidate)
    if (lettersApart(stemmed, other) > 2 * allowed) continue
    const distance = editDistance(stemmed, other)
    if (distance > allowed || distance >= least) continue
    nearest = candidate
    least = distance
  }
  return nearest
}

/** TRUSTED_PROXIES → TRUSTED_PROXY */
function stem(name: string): string {
  return name.replace(/IES(?=_|$)/g, 'Y').replace(/S(?=_|$)/g, '')
}

/** The number of letters that only one of the texts has; a replaced letter counts twice. */
function lettersApart(a: string, b: string): number {
  const counts = new Map<string, number>()
  for (const letter of a) counts.set(letter, (counts.get(letter) ?? 0) + 1)
  for (const letter of b) counts.set(letter, (counts.get(letter) ?? 0) - 1)
  return [...counts.values()].reduce((sum, count) => sum + Math.abs(count), 0)
}

/** The number of insertions, deletions, replacements and swaps of neighbours that turn one text into the other. */
function editDistance(from: string, to: string): number {
  let beforePrevious: number[] = []
  let previous = Array.from({ length: to.length + 1 }, (_, column) => column)
  for (let row = 1; row <= from.length; row++) {
    const current = [row]
    for (let column = 1; column <= to.length; column++) {
      const same = from[row - 1] === to[column - 1]
      let cost = Math.min(
        (previous[column] as number) + 1,
        (current[column - 1] as number) + 1,
        (previous[column - 1] as number) + (same ? 0 : 1),
      )
      const swapped = from[row - 1] === to[column - 2] && from[row - 2] === to[column - 1]
      if (swapped && row > 1) cost = Math.min(cost, (beforePrevious[column - 2] as number) + 1)
      current.push(cost)
    }
    beforePrevious = previous
    previous = current
  }
  return previous[to.length] as number
}

/** A valid but dangerous setting. */
export interface SettingRisk {
  /** The effect of the setting, in one line. */
  readonly found: string
  /** The recommended action of the operator. */
  readonly advice: string
}

/** Returns the risks that each start logs, and that `inflow doctor` reports. */
export function settingRisks(config: Config): readonly SettingRisk[] {
  const risks: SettingRisk[] = []
  const simulated = simulatedLiveBanks(config)
  if (simulated !== undefined) {
    const banks = simulated.join(', ') || 'no bank at present'
    risks.push({
      found: `ALLOW_SIMULATED_LIVE_ACCOUNTS is on: the sandbox opens live accounts at ${banks}; their numbers may be strangers' accounts`,
      advice: 'switch it off where customers get account numbers, and set BANKS to the live banks',
    })
  }
  const paying = payingBanks(config)
  const invented = BANK_CODES.filter((code) => config.banks[code] === 'sandbox')
  if (config.simulatesLiveAccounts && invented.length > 0 && paying.length > 0) {
    const settings = paying.map((code) => `BANK_${code}_TRANSFER_…`).join(', ')
    risks.push({
      found: `live accounts at ${invented.join(', ')} are simulated, and ${paying.join(', ')} pays out: simulated money leaves as real money, and what a simulated bank sends reaches no beneficiary`,
      advice: `unset ${settings}, or set DATABASE_URL without ALLOW_SIMULATED_LIVE_ACCOUNTS`,
    })
  }
  for (const [code, bank] of Object.entries(config.liveBanks)) {
    if (bank.requery) continue
    risks.push({
      found: `BANK_${code}_REQUERY is off: payments at ${code} are credited by the signature of the notification alone`,
      advice: `set BANK_${code}_REQUERY=on, unless the bank cannot be asked`,
    })
  }
  if (config.workers > 1 && config.opsPort === undefined) {
    risks.push({
      found: `WORKERS is ${config.workers} and OPS_PORT is not set: /metrics and /readyz come from whichever worker responds`,
      advice: 'set OPS_PORT: each worker serves its own there, or at one of the ports after it',
    })
  }
  return risks
}

/** The live banks that send payouts. */
export function payingBanks({ liveBanks }: Pick<Config, 'liveBanks'>): readonly string[] {
  return Object.entries(liveBanks).flatMap(([code, { connector }]) => (connector.pays ? code : []))
}

/**
 * The banks at which the sandbox opens live accounts because of `ALLOW_SIMULATED_LIVE_ACCOUNTS`; undefined if the setting
 * is off, or has no effect because of embedded mode.
 */
export function simulatedLiveBanks(config: Config): readonly string[] | undefined {
  if (config.databaseUrl === undefined || !config.allowSimulatedLiveAccounts) return undefined
  return BANK_CODES.filter((code) => config.banks[code] === 'sandbox')
}
