/** A dashboard, as `toGrafana` writes it. */
export interface Dashboard {
  /** The name of the file, and the end of the dashboard's address in Grafana. */
  readonly name: string
  readonly title: string
  readonly description: string
  readonly panels: readonly Panel[]
}

/** A query and the text of its series: `{{bank}}` is the value of a label. */
type Query = readonly [expr: string, legend: string]

/** A panel with one figure, or with lines over time. */
interface Panel {
  readonly kind: 'stat' | 'lines'
  readonly title: string
  /** The meaning of the panel, and when to act. */
  readonly description: string
  /** A unit of Grafana: `short`, `s`, `reqps`, `percentunit`, … */
  readonly unit: string
  readonly queries: readonly Query[]
  /** The value from which a stat is red; with `below`, the value below which it is red. */
  readonly alarm?: { readonly from: number } | { readonly below: number }
}

export function stat(
  title: string,
  description: string,
  unit: string,
  expr: string,
  alarm?: Panel['alarm'],
): Panel {
  return {
    kind: 'stat',
    title,
    description,
    unit,
    queries: [[expr, title]],
    ...(alarm && { alarm }),
  }
}

export function lines(
  title: string,
  description: string,
  unit: string,
  ...queries: readonly Query[]
): Panel {
  return { kind: 'lines', title, description, unit, queries }
}

/** Quantiles of a histogram over all series. @param filter selects the series by their labels: `mode="live"` */
export function quantiles(
  histogram: string,
  filter: string,
  ...fractions: readonly number[]
): readonly Query[] {
  return fractions.map((fraction) => [
    `histogram_quantile(${fraction}, sum by (le) (rate(${histogram}_bucket{${filter}}[$__rate_interval])))`,
    `p${fraction * 100}`,
  ])
}

/** The width of a row in Grafana's grid. */
const COLUMNS = 24

const SIZES = { stat: { w: 4, h: 4 }, lines: { w: 12, h: 8 } } as const

const DATASOURCE = { type: 'prometheus', uid: '$datasource' }

/** Annotations that mark firing alerts in every panel. */
const ALERTS = {
  name: 'Alerts',
  datasource: DATASOURCE,
  enable: true,
  iconColor: 'red',
  expr: 'max by (alertname) (ALERTS{alertstate="firing", alertname=~"Inflow.+"})',
  titleFormat: '{{alertname}}',
  step: '60s',
}

/** The dashboard in the format that Grafana 11 and later import. The data source is a variable. */
export function toGrafana({ name, title, description, panels }: Dashboard): object {
  return {
    uid: `inflow-${name}`,
    title: `Inflow: ${title}`,
    description,
    tags: ['inflow'],
    schemaVersion: 39,
    editable: true,
    graphTooltip: 1,
    refresh: '30s',
    time: { from: 'now-6h', to: 'now' },
    timezone: 'browser',
    annotations: { list: [ALERTS] },
    links: [
      {
        type: 'dashboards',
        title: 'Inflow',
        tags: ['inflow'],
        asDropdown: false,
        includeVars: true,
        keepTime: true,
      },
    ],
    templating: {
      list: [{ type: 'datasource', name: 'datasource', label: 'Data source', query: 'prometheus' }],
    },
    panels: place(panels),
  }
}

/** Fills rows from left to right. A panel of another height begins a new row. */
function place(panels: readonly Panel[]): readonly object[] {
  let x = 0
  let y = 0
  let rowHeight = 0
  return panels.map((panel, index) => {
    const { w, h } = SIZES[panel.kind]
    if (x + w > COLUMNS || (rowHeight !== 0 && rowHeight !== h)) {
      x = 0
      y += rowHeight
    }
    rowHeight = h
    const gridPos = { x, y, w, h }
    x += w
    return toPanel(panel, index + 1, gridPos)
  })
}

function toPanel(panel: Panel, id: number, gridPos: object): object {
  const { kind, title, description, unit, queries } = panel
  return {
    id,
    type: kind === 'stat' ? 'stat' : 'timeseries',
    title,
    description,
    gridPos,
    datasource: DATASOURCE,
    fieldConfig: {
      defaults: {
        unit,
        ...(kind === 'lines' && { min: 0, custom: { fillOpacity: 10, showPoints: 'never' } }),
        ...(panel.alarm && { thresholds: thresholdsOf(panel.alarm) }),
      },
      overrides: [],
    },
    options:
      kind === 'stat'
        ? { reduceOptions: { calcs: ['lastNotNull'] }, colorMode: panel.alarm ? 'value' : 'none' }
        : {
            legend: { displayMode: 'list', placement: 'bottom', showLegend: true },
            tooltip: { mode: 'multi', sort: 'desc' },
          },
    targets: queries.map(([expr, legendFormat], index) => ({
      refId: String.fromCharCode(65 + index),
      datasource: DATASOURCE,
      expr,
      legendFormat,
      // With tracing, exemplars link single durations to their traces.
      ...(kind === 'lines' && expr.includes('_bucket') && { exemplar: true }),
    })),
  }
}

function thresholdsOf(alarm: NonNullable<Panel['alarm']>): object {
  const steps =
    'from' in alarm
      ? [
          { color: 'green', value: null },
          { color: 'red', value: alarm.from },
        ]
      : [
          { color: 'red', value: null },
          { color: 'green', value: alarm.below },
        ]
  return { mode: 'absolute', steps }
}
