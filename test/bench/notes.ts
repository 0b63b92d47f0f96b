import type { Figure } from './in-turn.ts'

/** What the rounds told beside the figure itself: latencies and who used how much of the machine. */
export function notes(...figures: readonly Figure[]): readonly string[] {
  return figures.flatMap(({ name, aside }) => {
    const parts = Object.entries(aside).map(([what, amount]) => `${what} ${amount.toFixed(2)}`)
    return parts.length > 0 ? [`${name}: ${parts.join(', ')}`] : []
  })
}
