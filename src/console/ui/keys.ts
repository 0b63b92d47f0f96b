interface KeyPress {
  readonly ctrlKey: boolean
  readonly metaKey: boolean
  readonly altKey: boolean
}

/** Whether a key is pressed together with a modifier, which gives it another meaning. */
export function isModified({ ctrlKey, metaKey, altKey }: KeyPress): boolean {
  return ctrlKey || metaKey || altKey
}

export function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || target.closest('input, select, textarea') !== null)
  )
}

/** The number of lines by which a key moves. */
export const STEPS: Readonly<Record<string, number>> = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }

/** The line at an index, clamped to the list. */
export function lineAt<Line>(lines: readonly Line[], index: number): Line | undefined {
  return lines[Math.min(lines.length - 1, Math.max(0, index))]
}
