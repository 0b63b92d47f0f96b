import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { useFullScrape } from './full-service.ts'
import { alerts, dashboards, hasPromtool, namesIn, records } from './rules.ts'

const full = useFullScrape()

/** The rows of the tables of metrics: name, labels and text. */
const documented = new Map(
  [
    ...readFileSync(join(import.meta.dirname, '../../src/docs/observability.md'), 'utf8').matchAll(
      /^\| `(inflow_\w+)` \| (.+?) \| (.+) \|$/gm,
    ),
  ].map(([, name = '', labels = '', text = '']) => [
    name,
    { labels: [...labels.matchAll(/`(\w+)`/g)].map(([, label = '']) => label), text },
  ]),
)

test('every metric that a rule or a dashboard names exists', () => {
  const { types } = full.scrape
  const queries = [
    ...alerts.map(({ alert, expr }) => [alert, expr] as const),
    ...records,
    ...[...dashboards].flatMap(([file, { panels }]) =>
      panels.flatMap(({ title, targets }) =>
        targets.map(({ expr }) => [`${file}: ${title}`, expr] as const),
      ),
    ),
  ]
  const missing = queries.flatMap(([where, expr]) =>
    namesIn(expr)
      .filter((name) => !types.has(name) && !records.has(name))
      .map((name) => `${where}: ${name}`),
  )
  expect(missing).toEqual([])
  // A rule that stores a query which no other query reads is of no use.
  const read = new Set(queries.flatMap(([, expr]) => namesIn(expr)))
  expect([...records.keys()].filter((name) => !read.has(name))).toEqual([])
})

test('every metric is described, with its labels and in the words of its HELP text', () => {
  const { helps, labels } = full.scrape
  const own = [...helps.keys()].filter((name) => name.startsWith('inflow_'))
  expect([...documented.keys()].sort()).toEqual(own.sort())
  for (const name of own) {
    expect([name, documented.get(name)?.text.replaceAll('`', '')]).toEqual([name, helps.get(name)])
    const found = labels.get(name)
    // Some have no series before their first event.
    if (found && found.size > 0)
      expect([name, documented.get(name)?.labels.toSorted()]).toEqual([name, [...found].sort()])
  }
})

test('no label has values without a bound', () => {
  for (const { labels } of documented.values())
    expect(labels.filter((label) => /business|endpoint|account|session|_id$/.test(label))).toEqual(
      [],
    )
})

test.skipIf(!hasPromtool)('names and texts follow the conventions of Prometheus', () => {
  // The metrics of Node.js have their own names.
  const own = full.text
    .split('\n')
    .filter((line) => /^(# (HELP|TYPE) )?inflow_/.test(line))
    .join('\n')
  const input = `${own}\n`
  expect(execFileSync('promtool', ['check', 'metrics'], { input, encoding: 'utf8' })).toBe('')
})
