import { BANK_CODES } from '../banks/bank.ts'
import type { EnvFile } from './env-file.ts'
import { COMMAND_LINE_SETTINGS, listSettings } from './setting-table.ts'

/** A variable that the service does not read, although it looks like a setting. */
export interface UnknownSetting {
  readonly name: string
  /** The setting that was probably meant; undefined: none is similar. */
  readonly similar: string | undefined
}

/** What begins like this is meant for Inflow. Other programs have variables like `HTTP_PROXY` or `WEBHOOK_…`. */
const OURS = new RegExp(
  `^(INFLOW|RECONCILE|MASTER_KEY|ADMIN_TOKEN|BANK_(${BANK_CODES.join('|')}))_`,
)

/** Kubernetes gives every container the addresses of services, so one of the name `inflow` adds these. */
const SERVICE_LINK = /_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP)(_\w+)?)?)$/

/** Shorter names are similar to too many others. */
const SIMILAR_LENGTH_MIN = 5

/**
 * Finds variables that look like settings and are none: misspelt ones, unknown ones with a prefix of ours, and
 * whatever else is in the file, which is for Inflow alone.
 *
 * @param env without the settings of the file
 */
export function findUnknown(env: NodeJS.ProcessEnv, file?: EnvFile): readonly UnknownSetting[] {
  const known = new Set<string>(COMMAND_LINE_SETTINGS)
  for (const { name, secret } of listSettings()) {
    known.add(name)
    if (secret) known.add(`${name}_FILE`)
  }
  const inFile = Object.keys(file?.values ?? {})
  const names = [...new Set([...Object.keys(env), ...inFile])].filter((name) => !known.has(name))
  return names.sort().flatMap((name) => {
    const similar = findSimilar(name, known)
    const isOurs = OURS.test(name) && !SERVICE_LINK.test(name)
    return similar || isOurs || inFile.includes(name) ? [{ name, similar }] : []
  })
}

/** The known name that differs by one letter, or two in longer ones, or only by case. */
function findSimilar(name: string, known: ReadonlySet<string>): string | undefined {
  if (name.length < SIMILAR_LENGTH_MIN) return undefined
  const upper = name.toUpperCase()
  if (known.has(upper)) return upper
  const allowed = name.length < 9 ? 1 : 2
  for (const candidate of known) {
    if (Math.abs(candidate.length - name.length) > allowed) continue
    if (editDistance(upper, candidate) <= allowed) return candidate
  }
  return undefined
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
