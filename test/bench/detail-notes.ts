import type { Figure } from './alternate-rounds.ts'

/** The further figures of each contender as text: latencies and CPU usage. */
export function detailNotes(...figures: readonly Figure[]): readonly string[] {
  return figures.flatMap(({ name, details }) => {
    const parts = Object.entries(details).map(([what, amount]) => `${what} ${amount.toFixed(2)}`)
    return parts.length > 0 ? [`${name}: ${parts.join(', ')}`] : []
  })
}
