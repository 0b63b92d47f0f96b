import { type Business, demandAt, HOURS_PER_DAY } from './demand.ts'

/**
 * How businesses are placed on cells. `hash`: by a hash of the id, without a directory. `two`: a new
 * business goes to the less busy of two random cells, and stays. `moves`: as `two`, and every night
 * some businesses move from the busiest cells to the idlest.
 */
export type Placement = 'hash' | 'two' | 'moves'

export interface CellOptions {
  readonly random: () => number
  readonly businesses: readonly Business[]
  readonly cells: number
  /** Payments per second that one cell can record. */
  readonly capacity: number
  readonly days: number
  readonly placement: Placement
}

export interface CellReport {
  /** The cell of each business at the end. */
  readonly cellOf: readonly number[]
  /** The busiest cell in its busiest hour, as a share of the capacity. */
  readonly peak: number
  /** The same, of a day in which no hour is exceptional: the 99th percentile of hours. */
  readonly peak99: number
  /** The busiest cell over the mean of all cells, in the median hour. */
  readonly imbalance: number
  /** The share of hours in which a cell was busier than `FULL` of its capacity. */
  readonly fullHours: number
  readonly movesPerNight: number
}

/** Above this share of its capacity, a cell no longer answers within its bounds. */
export const FULL = 0.7

/** A cell whose busiest hour of the day is this much above the mean gives businesses away. */
const MOVE_ABOVE = 1.1
/** A move stops the writes of one business for seconds, so there are few. */
const MOVES_MAX = 20

/** Places businesses on cells and lets time pass, hour by hour. */
export function simulateCells(options: CellOptions): CellReport {
  const { businesses, cells, capacity, days, placement } = options
  const cellOf = place(options)
  const busiest: number[] = []
  const imbalances: number[] = []
  let fullHours = 0
  let moves = 0
  for (let day = 0; day < days; day++) {
    const peakOf = new Float64Array(cells)
    const peakOfBusiness = new Float64Array(businesses.length)
    for (let hour = day * HOURS_PER_DAY; hour < (day + 1) * HOURS_PER_DAY; hour++) {
      const load = new Float64Array(cells)
      for (const [index, business] of businesses.entries()) {
        const demand = demandAt(business, hour)
        load[cellOf[index] as number]! += demand
        peakOfBusiness[index] = Math.max(peakOfBusiness[index] as number, demand)
      }
      const most = Math.max(...load)
      busiest.push(most / capacity)
      imbalances.push((most * cells) / load.reduce((total, each) => total + each, 0))
      if (most > FULL * capacity) fullHours += 1
      for (const [cell, each] of load.entries())
        peakOf[cell] = Math.max(peakOf[cell] as number, each)
    }
    if (placement === 'moves') moves += moveBusinesses(cellOf, peakOf, peakOfBusiness)
  }
  return {
    cellOf,
    peak: Math.max(...busiest),
    peak99: percentile(busiest, 0.99),
    imbalance: percentile(imbalances, 0.5),
    fullHours: fullHours / busiest.length,
    movesPerNight: moves / days,
  }
}

function place({ random, businesses, cells, placement }: CellOptions): number[] {
  const load = new Float64Array(cells)
  return businesses.map(({ perSecond }) => {
    const [one, two] = [Math.floor(random() * cells), Math.floor(random() * cells)]
    // What a business will receive is not known when it signs up: only what the cells receive is.
    const cell = placement === 'hash' || (load[one] as number) <= (load[two] as number) ? one : two
    load[cell]! += perSecond
    return cell
  })
}

/**
 * Moves businesses from the busiest cell to the idlest, each time the largest that does not make the
 * idlest as busy as the busiest was.
 *
 * @param cellOf changed in place
 * @returns the number of moves
 */
function moveBusinesses(
  cellOf: number[],
  peakOf: Float64Array,
  peakOfBusiness: Float64Array,
): number {
  const mean = peakOf.reduce((total, peak) => total + peak, 0) / peakOf.length
  for (let moves = 0; moves < MOVES_MAX; moves++) {
    const from = peakOf.indexOf(Math.max(...peakOf))
    const to = peakOf.indexOf(Math.min(...peakOf))
    const [high, low] = [peakOf[from] as number, peakOf[to] as number]
    if (high <= MOVE_ABOVE * mean) return moves
    let chosen = -1
    for (const [index, cell] of cellOf.entries()) {
      const peak = peakOfBusiness[index] as number
      const isLarger = chosen < 0 || peak > (peakOfBusiness[chosen] as number)
      if (cell === from && isLarger && peak <= (high - low) / 2) chosen = index
    }
    if (chosen < 0) return moves
    const peak = peakOfBusiness[chosen] as number
    cellOf[chosen] = to
    peakOf[from] = high - peak
    peakOf[to] = low + peak
  }
  return MOVES_MAX
}

/** @param share from 0 to 1 */
function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(Math.floor(sorted.length * share), sorted.length - 1)] as number
}
