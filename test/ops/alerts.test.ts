import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { slugOf } from '../../src/openapi/site/guide.ts'
import { temporaryFolder } from '../support/folder.ts'
import { alerts, dashboards, hasPromtool, PROMETHEUS, records } from './rules.ts'

/** Quick ones, and those of alerts that take hours to fire. */
const TESTS = ['alerts.test.yaml', 'alerts-hours.test.yaml'].map((file) => join(PROMETHEUS, file))

const promtool = (...args: readonly string[]): string =>
  execFileSync('promtool', args, { encoding: 'utf8' })

test.skipIf(!hasPromtool)('Prometheus accepts the rules', () => {
  const output = promtool('check', 'rules', join(PROMETHEUS, 'alerts.yaml'))
  expect(output).toContain(`SUCCESS: ${alerts.length + records.size} rules found`)
})

test.skipIf(!hasPromtool)('each alert fires when it should, and not before', () => {
  const output = promtool('test', 'rules', ...TESTS)
  expect(output.match(/SUCCESS/g)).toHaveLength(TESTS.length)
})

test('each alert has a case', () => {
  const cases = TESTS.map((file) => readFileSync(file, 'utf8')).join('')
  for (const { alert } of alerts) {
    const uses = cases.split(`alertname="${alert}",alertstate="firing"`).length - 1
    // Silent, then firing.
    expect([alert, uses]).toEqual([alert, 2])
  }
})

test('each alert says how bad it is and what it is, and has a runbook of its own', () => {
  expect(alerts.length).toBeGreaterThan(35)
  const operations = readFileSync(join(import.meta.dirname, '../../src/docs/operations.md'), 'utf8')
  const headings = [...operations.matchAll(/^### (.+)$/gm)].map(([, text = '']) => text)
  for (const { alert = '', labels, annotations } of alerts) {
    expect(alert).toMatch(/^Inflow[A-Z]\w+$/)
    expect(['critical', 'warning', 'info']).toContain(labels?.['severity'])
    expect(annotations?.['summary']).toBeTruthy()
    expect(annotations?.['description']).toBeTruthy()
    expect(annotations?.['runbook_url']).toBe(
      `{{ $externalLabels.inflow_url }}/docs/operations#${slugOf(alert)}`,
    )
    expect(headings).toContain(alert)
  }
  const names = new Set(alerts.map(({ alert }) => alert))
  expect(headings.filter((heading) => /^Inflow\w+$/.test(heading) && !names.has(heading))).toEqual(
    [],
  )
})

test.skipIf(!hasPromtool)('Prometheus accepts the queries of the dashboards', async () => {
  const queries = [...dashboards.values()].flatMap(({ panels }) =>
    panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)),
  )
  expect(queries.length).toBeGreaterThan(60)
  const rules = queries.map((expr, index) => ({
    record: `query_${index}`,
    expr: expr.replaceAll('$__rate_interval', '5m'),
  }))
  const folder = temporaryFolder()
  // JSON is YAML.
  const file = join(folder, 'queries.yaml')
  await writeFile(file, JSON.stringify({ groups: [{ name: 'queries', rules }] }))
  expect(promtool('check', 'rules', file)).toContain(`SUCCESS: ${rules.length} rules found`)
})
