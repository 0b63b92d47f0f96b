import type { Logger } from 'pino'

interface SamplerOptions {
  readonly log: Logger
  readonly level: 'debug' | 'info' | 'warn'
  readonly text: string
  /** The field whose values are counted separately, such as `endpoint`. */
  readonly by: string
  /** The most lines of one value in a window. */
  readonly linesMax: number
  /** The most lines of all values together in a window. */
  readonly totalMax: number
  readonly windowMs: number
  /** Schedules the end of a window. */
  readonly schedule?: (end: () => void, afterMs: number) => void
}

/** Logs a line, or counts it as left out. @param value the value of the field `by` */
type SampledLog = (value: string, record: Readonly<Record<string, unknown>>) => void

/** The text of the line after a window in which lines were left out. */
const LEFT_OUT = 'similar lines left out'

/**
 * Bounds the number of log lines with the same text. The first lines of each window are logged. At the end of the window,
 * each value that was logged gets one line with the number of its further lines (`left_out`), and one line counts the
 * lines of all other values.
 */
export function createLogSampler(options: SamplerOptions): SampledLog {
  const { log, level, text, by, linesMax, totalMax, windowMs } = options
  const schedule = options.schedule ?? scheduleUnreferenced
  let counts = new Map<string, { lines: number; leftOut: number }>()
  let total = 0
  let others = 0
  const report = (leftOut: number, about: Readonly<Record<string, string>>): void => {
    if (leftOut === 0) return
    log[level]({ ...about, left_out: leftOut, of: text, window_ms: windowMs }, LEFT_OUT)
  }
  const end = (): void => {
    for (const [value, { leftOut }] of counts) report(leftOut, { [by]: value })
    report(others, {})
    counts = new Map()
    total = 0
    others = 0
  }
  return (value, record) => {
    if (!log.isLevelEnabled(level)) return
    if (total + others === 0) schedule(end, windowMs)
    const count = counts.get(value)
    if (count === undefined && total >= totalMax) {
      others += 1
      return
    }
    const known = count ?? { lines: 0, leftOut: 0 }
    counts.set(value, known)
    if (known.lines >= linesMax || total >= totalMax) {
      known.leftOut += 1
      return
    }
    known.lines += 1
    total += 1
    log[level]({ [by]: value, ...record }, text)
  }
}

/** A window does not keep the process alive. */
function scheduleUnreferenced(end: () => void, afterMs: number): void {
  setTimeout(end, afterMs).unref()
}
