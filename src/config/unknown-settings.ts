import { BANK_CODES } from '../banks/bank.ts'
import type { EnvFile } from './env-file.ts'
import type { SettingRisk } from './setting-risks.ts'
import { COMMAND_LINE_SETTINGS, listSettings } from './setting-table.ts'

/** A variable that the service does not read, although it looks like a setting. */
export interface UnknownSetting {
  readonly name: string
  /** The setting that was probably meant; undefined: none is similar. */
  readonly similar: string | undefined
  /** Whether it can be meant for nothing but Inflow: then the start is refused, as it would ignore it. */
  readonly refused: boolean
}

/** A name that begins like this is meant for Inflow. Other programs have variables like `HTTP_PROXY` or `WEBHOOK_…`. */
const OURS = new RegExp(
  `^(INFLOW|RECONCILE|RECORD|MASTER_KEY|ADMIN_TOKEN|ALLOW_SIMULATED|BANK_(${BANK_CODES.join('|')}))_`,
)

/** Variables of the examples in the guides, which callers of the service set. */
const OF_CALLERS = ['INFLOW_URL', 'INFLOW_SECRET_KEY', 'INFLOW_WEBHOOK_SECRET']

/** Shorter names are similar to too many others. */
const SIMILAR_LENGTH_MIN = 5

/** A name of this length that is similar to one of ours by chance is unlikely. */
const DISTINCT_LENGTH_MIN = 11

/**
 * Finds variables that look like settings and are none: misspelt ones, unknown ones with a prefix of ours, and
 * whatever else is in the file, which is for Inflow alone.
 *
 * @param env with or without the settings of the file
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
    // Beside the setting itself, a name like it is for something else: DATABASE_SSL.
    const isMisspelt = similar !== undefined && !isSet(similar)
    if (!isOurs && !isMisspelt && !isInFile) return []
    const isDistinct = isInFile || name.length >= DISTINCT_LENGTH_MIN
    // Its specification has more variables than the service reads.
    const refused = isOurs || (isMisspelt && isDistinct && !name.startsWith('OTEL_'))
    return [{ name, similar: isOurs || isMisspelt ? similar : undefined, refused }]
  })
}

/** The warning about such a variable that does not end the start. */
export function unknownRisk({ name, similar }: UnknownSetting): SettingRisk {
  const advice = similar === undefined ? 'remove it' : `did you mean ${similar}?`
  return { found: `${name} is not a setting`, advice }
}

/** The same in one line. */
export function unknownText({ name, similar }: UnknownSetting): string {
  return `${name} is not a setting${similar === undefined ? '' : `; did you mean ${similar}?`}`
}

/** Kubernetes gives every container the addresses of all services: one of the name `inflow` adds INFLOW_PORT and others. */
function isServiceLink(name: string, value: string): boolean {
  if (/_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)$/.test(name)) return true
  return name.endsWith('_PORT') && /^(tcp|udp|sctp):/.test(value)
}

/** The known name that differs least: by a letter or two, by case, by singular and plural, or, after a prefix of ours, by less than half. */
function findSimilar(name: string, known: ReadonlySet<string>): string | undefined {
  if (name.length < SIMILAR_LENGTH_MIN) return undefined
  const upper = name.toUpperCase()
  const plain = upper.replace(/^INFLOW_/, '')
  if (known.has(plain)) return plain
  const [prefix] = OURS.exec(upper) ?? []
  let nearest: string | undefined
  let least = Number.POSITIVE_INFINITY
  for (const candidate of known) {
    const isFamily = prefix !== undefined && candidate.startsWith(prefix)
    const longer = Math.max(candidate.length, name.length)
    const letters = name.length < 12 ? 1 : 2
    const allowed = isFamily ? Math.max(letters, (longer - prefix.length) / 2) : letters
    if (Math.abs(candidate.length - name.length) > allowed + 2) continue
    const distance = editDistance(stem(upper), stem(candidate))
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

/** Insertions, deletions, replacements and swaps of neighbours that turn one text into the other. */
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
