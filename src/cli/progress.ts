/** The progress of long work: a bar on a terminal, otherwise an occasional line. */
export interface Progress {
  /**
   * @param text the stage, such as "comparing"; a new text begins a new rate
   * @param total the approximate total; absent or 0: unknown
   */
  show(text: string, done: number, total?: number): void
  /** Erases the bar. Call it before other output. */
  end(): void
}

interface ProgressOptions {
  /** Standard error, because standard output has the result. */
  readonly output: {
    readonly isTTY?: boolean
    readonly columns?: number
    write(text: string): unknown
  }
  /** Milliseconds of a clock that is never set back. */
  readonly now: () => number
  /** Whether to print lines if the output is not a terminal. */
  readonly lines: boolean
}

const WIDTH = 30
const REDRAW_MS = 100
const LINE_INTERVAL_MS = 10_000

/** The shortest time over which a rate is shown, because a shorter one is inaccurate. */
const RATE_MS_MIN = 1_000

/** The width of a terminal that states no width, or 0. */
const COLUMNS = 80

/** Creates the progress of work that starts now. Work of less than ten seconds prints no line. */
export function createProgress(options: ProgressOptions): Progress {
  const { output, now, lines } = options
  const isTerminal = output.isTTY === true
  let shownMs = isTerminal ? Number.NEGATIVE_INFINITY : now()
  let drawn = false
  let stage = { text: '', startedMs: 0, startedAt: 0 }
  return {
    show(text, done, total = 0) {
      const nowMs = now()
      if (stage.text !== text) stage = { text, startedMs: nowMs, startedAt: done }
      const isLast = isTerminal && total > 0 && done >= total
      if (nowMs - shownMs < (isTerminal ? REDRAW_MS : LINE_INTERVAL_MS) && !isLast) return
      if (!isTerminal && !lines) return
      shownMs = nowMs
      const speed = speedText({ ...stage, done, total, nowMs })
      const share = total > 0 ? Math.min(done / total, 1) : undefined
      if (isTerminal) {
        drawn = true
        const line = `${text} ${bar(share)}${counts(done, total, '/')}${speed}`
        output.write(`\r\u001b[2K${line.slice(0, (output.columns || COLUMNS) - 1)}`)
      } else {
        const percent = share === undefined ? '' : ` (${Math.floor(share * 100)}%)`
        output.write(`${text}: ${counts(done, total, ' of about ')}${percent}${speed}\n`)
      }
    },
    end() {
      if (drawn) output.write('\r\u001b[2K')
      drawn = false
    },
  }
}

/** Creates the progress of a command on standard error; with `json`, only on a terminal. */
export function commandProgress(json: boolean | undefined): Progress {
  return createProgress({
    output: process.stderr,
    now: () => performance.now(),
    lines: json !== true,
  })
}

/** Returns the bar; empty if the total is unknown. */
function bar(share: number | undefined): string {
  if (share === undefined) return ''
  const full = Math.floor(share * WIDTH)
  return `[${'#'.repeat(full)}${'-'.repeat(WIDTH - full)}] ${Math.floor(share * 100)}% `
}

function counts(done: number, total: number, separator: string): string {
  return total > 0 ? `${format(done)}${separator}${format(Math.max(done, total))}` : format(done)
}

/** "1,200" */
function format(count: number): string {
  return Math.round(count).toLocaleString('en')
}

interface Speed {
  readonly startedMs: number
  /** The count at the beginning of the stage, which is not 0 if an interrupted run is continued. */
  readonly startedAt: number
  readonly done: number
  readonly total: number
  readonly nowMs: number
}

/** ", 1,200/s, 2 min 5 s left"; empty while the rate is unknown. */
function speedText(speed: Speed): string {
  const { startedMs, startedAt, done, total, nowMs } = speed
  const elapsedMs = nowMs - startedMs
  if (elapsedMs < RATE_MS_MIN || done <= startedAt) return ''
  const perSecond = ((done - startedAt) * 1_000) / elapsedMs
  const rate = `, ${format(perSecond)}/s`
  return total > done ? `${rate}, ${duration((total - done) / perSecond)} left` : rate
}

/** "45 s", "2 min 5 s", "1 h 3 min" */
function duration(seconds: number): string {
  const whole = Math.ceil(seconds)
  if (whole < 60) return `${whole} s`
  const minutes = Math.floor(whole / 60)
  if (minutes < 60) return `${minutes} min ${whole % 60} s`
  return `${Math.floor(minutes / 60).toLocaleString('en')} h ${minutes % 60} min`
}
