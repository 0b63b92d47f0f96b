import { expect, test } from 'vitest'
import { dashboards } from './rules.ts'

test('there is a dashboard of each area, under an address that does not change', () => {
  const uids = [...dashboards].map(([file, { uid }]) => [file, uid])
  expect(uids).toEqual(
    ['banks', 'database', 'overview', 'payments', 'webhooks'].map((name) => [
      `${name}.json`,
      `inflow-${name}`,
    ]),
  )
})

test.each([...dashboards])('%s has what Grafana 11 imports, from any data source', (_, found) => {
  expect(found.schemaVersion).toBe(39)
  expect(found.templating.list).toEqual([
    expect.objectContaining({ name: 'datasource', type: 'datasource', query: 'prometheus' }),
  ])
  const taken = new Set<string>()
  for (const panel of found.panels) {
    expect(panel.title).toMatch(/^[A-Z]/)
    expect([panel.title, panel.description]).toEqual([panel.title, expect.stringMatching(/\.$/)])
    expect([panel.title, panel.fieldConfig.defaults.unit]).toEqual([
      panel.title,
      expect.stringMatching(/^\w+$/),
    ])
    expect(panel.targets.length).toBeGreaterThan(0)
    expect(panel.datasource.uid).toBe('$datasource')
    const { x, y, w, h } = panel.gridPos
    expect(x + w).toBeLessThanOrEqual(24)
    for (let column = x; column < x + w; column++)
      for (let row = y; row < y + h; row++) taken.add(`${column} ${row}`)
  }
  // No two panels lie on one place.
  const area = found.panels.reduce((sum, { gridPos: { w, h } }) => sum + w * h, 0)
  expect(taken.size).toBe(area)
  expect(new Set(found.panels.map(({ id }) => id)).size).toBe(found.panels.length)
})
