/** How far long work has come: a bar on a terminal, else a line now and then. */
export interface Progress {
  /**
   * @param text what is counted: "comparing"; another text begins a rate of its own
   * @param total about how many there are in all; absent or 0: unknown
   */
  show(text: string, done: number, total?: number): void
  /** Erases the bar, before other output. */
  end(): void
}

interface ProgressOptions {
  /** Standard error, as standard output has the result. */
  readonly output: {
    readonly isTTY?: boolean
    readonly columns?: number
    write(text: string): unknown
  }
  /** Milliseconds of a clock that is never set back. */
  readonly now: () => number
  /** Whether there are lines where there is no terminal. */
  readonly lines: boolean
}

const WIDTH = 30
const REDRAW_MS = 100
const LINE_INTERVAL_MS = 10_000

/** A rate over less time says little. */
const RATE_MS_MIN = 1_000

/** Also where a terminal states no width, or 0. */
const COLUMNS = 80

/** Begins when it is created, so work of less than ten seconds prints no line. */
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

/** The progress of a command, on standard error; with `json`, only on a terminal. */
export function commandProgress(json: boolean | undefined): Progress {
  return createProgress({
    output: process.stderr,
    now: () => performance.now(),
    lines: json !== true,
  })
}

/** Without a total there is no bar. */
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
  /** What was done when the stage began: an interrupted run is continued. */
  readonly startedAt: number
  readonly done: number
  readonly total: number
  readonly nowMs: number
}

/** ", 1,200/s, 2 min 5 s left"; empty as long as it is unknown. */
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
