import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { useEffect, useRef } from 'react'
import { lagosClock, lagosDay } from '../format/time.ts'

interface Series {
  readonly label: string
  /** Null: no value at that time. */
  readonly values: readonly (number | null)[]
  /** A CSS custom property, such as `--good`. */
  readonly colour: string
}

const HEIGHT = 180

/** Labels of the time axis: the hour, and below it the day if it changes. */
const CLOCK: NonNullable<uPlot.Axis['values']> = [
  [3600, '{HH}:{mm}', '\n{D} {MMM}', null, '\n{D} {MMM}', null, null, null, 1],
  [60, '{HH}:{mm}', '\n{D} {MMM}', null, '\n{D} {MMM}', null, null, null, 1],
]

/** Shows the values of the latest hour while the pointer is elsewhere. */
function showLatest(plot: uPlot): void {
  if (typeof plot.cursor.idx !== 'number') plot.setLegend({ idx: plot.data[0].length - 1 })
}

const hourText = (seconds: number | null): string =>
  seconds === null ? '' : `${lagosDay(seconds * 1_000)}, ${lagosClock(seconds * 1_000)}`

interface ChartProps {
  readonly label: string
  readonly times: readonly number[]
  readonly series: readonly Series[]
  readonly format: (value: number) => string
}

/**
 * Lines over time, with the values under the pointer.
 *
 * @param times in seconds since the Unix epoch, ascending
 * @param format formats a value of the vertical axis
 */
export function Chart({ label, times, series, format }: ChartProps) {
  const frame = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const element = frame.current
    if (element === null) return undefined
    const colour = (name: string) => getComputedStyle(element).getPropertyValue(name)
    const axis = {
      stroke: colour('--faint'),
      grid: { stroke: colour('--line'), width: 1 },
      ticks: { show: false },
    }
    const plot = new uPlot(
      {
        width: element.clientWidth,
        height: HEIGHT,
        series: [
          { label: 'Hour', value: (_plot, seconds) => hourText(seconds) },
          ...series.map((each) => ({
            label: each.label,
            stroke: colour(each.colour),
            width: 1.5,
            points: { show: each.values.includes(null) },
            value: (_plot: uPlot, value: number | null) => (value === null ? '–' : format(value)),
          })),
        ],
        axes: [
          { ...axis, values: CLOCK },
          { ...axis, size: 60, values: (_plot, ticks) => ticks.map(format) },
        ],
        cursor: { drag: { x: false, y: false } },
        hooks: { setCursor: [showLatest] },
      },
      [[...times], ...series.map(({ values }) => [...values])],
      element,
    )
    showLatest(plot)
    const resized = new ResizeObserver(() => {
      plot.setSize({ width: element.clientWidth, height: HEIGHT })
    })
    resized.observe(element)
    return () => {
      resized.disconnect()
      plot.destroy()
    }
  }, [times, series, format])
  return <div className="chart" ref={frame} role="img" aria-label={label} />
}
