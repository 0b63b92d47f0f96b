import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'

const OPS = join(import.meta.dirname, '../../src/ops')

export const PROMETHEUS = join(OPS, 'prometheus')
const GRAFANA = join(OPS, 'grafana')

/** Whether this machine has the program. Debian: `apt-get install prometheus`. */
export const hasPromtool = spawnSync('promtool', ['--version']).status === 0

interface Rule {
  readonly alert?: string
  readonly record?: string
  readonly expr: string
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
}

const file: { groups: { rules: Rule[] }[] } = parse(
  readFileSync(join(PROMETHEUS, 'alerts.yaml'), 'utf8'),
)

const rules: readonly Rule[] = file.groups.flatMap((group) => group.rules)

export const alerts = rules.filter(({ alert }) => alert !== undefined)

/** The queries that rules store under names of their own. */
export const records = new Map(
  rules.flatMap(({ record, expr }) => (record ? [[record, expr]] : [])),
)

/** The parts of a dashboard that the tests look at. */
interface Dashboard {
  readonly panels: readonly {
    readonly title: string
    readonly targets: readonly { readonly expr: string }[]
  }[]
}

/** By the name of the file. */
export const dashboards: ReadonlyMap<string, Dashboard> = new Map(
  readdirSync(GRAFANA).map((name) => [name, JSON.parse(readFileSync(join(GRAFANA, name), 'utf8'))]),
)

/** The metrics and stored queries that a query names, without the suffixes of histograms. */
export function namesIn(expr: string): readonly string[] {
  const found = expr.matchAll(/\b(?:inflow|process|nodejs)[_:][\w:]+/g)
  return [...found].map(([name]) => name.replace(/_(bucket|sum|count)$/, ''))
}
