/** A progress bar on a terminal. */
export interface ProgressBar {
  /** @param done of `total` */
  show(text: string, done: number, total: number): void
  /** Erases the bar, before other output. */
  end(): void
}

const WIDTH = 30
const REDRAW_MS = 100

/** @param output written to only if it is a terminal */
export function createProgressBar(
  output: { readonly isTTY?: boolean; write(text: string): unknown },
  now: () => number,
): ProgressBar {
  let drawnMs = 0
  let drawn = false
  return {
    show(text, done, total) {
      if (output.isTTY !== true || (now() - drawnMs < REDRAW_MS && done < total)) return
      drawnMs = now()
      drawn = true
      const share = total === 0 ? 1 : Math.min(done / total, 1)
      const full = Math.floor(share * WIDTH)
      const bar = '#'.repeat(full) + '-'.repeat(WIDTH - full)
      output.write(`\r\u001b[2K${text} [${bar}] ${Math.floor(share * 100)}% ${done}/${total}`)
    },
    end() {
      if (drawn) output.write('\r\u001b[2K')
      drawn = false
    },
  }
}
