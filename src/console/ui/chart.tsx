import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { useEffect, useRef } from 'react'

interface Series {
  readonly label: string
  /** Null: there is none for that time. */
  readonly values: readonly (number | null)[]
  /** A custom property of the style, such as `--good`. */
  readonly colour: string
}

const HEIGHT = 180

/** The hour, and the day below it where it changes. */
const CLOCK: NonNullable<uPlot.Axis['values']> = [
  [3600, '{HH}:{mm}', '\n{D} {MMM}', null, '\n{D} {MMM}', null, null, null, 1],
  [60, '{HH}:{mm}', '\n{D} {MMM}', null, '\n{D} {MMM}', null, null, null, 1],
]

interface ChartProps {
  readonly label: string
  readonly times: readonly number[]
  readonly series: readonly Series[]
  readonly format?: (value: number) => string
}

/**
 * Lines over time, with the values under the pointer.
 *
 * @param times in seconds since the Unix epoch, ascending
 * @param format writes a value of the vertical axis
 */
export function Chart({ label, times, series, format = String }: ChartProps) {
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
          {},
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
      },
      [[...times], ...series.map(({ values }) => [...values])],
      element,
    )
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
