import { HOUR_MS } from '../core/durations.ts'
import { firstIdAt } from '../core/ids.ts'
import type { Cut, NumberedTable, PartitionedTable, TableState, TimedTable } from './partitions.ts'

/** The fewest rows of a partition: a query without the key opens all partitions, so a small table should have few. */
const WIDTH_MIN = 100_000

/** The number of numbered partitions that are created ahead. */
const PARTITIONS_AHEAD = 2

/** Timed partitions are created ahead until the end of the next month. */
const MONTHS_AHEAD = 2

/** The lengths of partitions in months, which divide a year. */
const PERIODS = [12, 3] as const

/** The most rows of a partition that is longer than a month: a look-up opens all partitions, so there should be few. */
const PERIOD_ROWS_MAX = 250_000_000
const MONTH_DAYS = 30.5

const DAY_SECONDS = 86_400

/** How long a table counts as new: the job may not have run yet. */
const NEW_MS = HOUR_MS

/** The next cut that a table needs; undefined: enough partitions exist ahead. */
export function nextCut(table: PartitionedTable, state: TableState): Cut | undefined {
  return table.kind === 'number' ? nextNumber(table, state) : nextPeriod(table, state)
}

/**
 * How long the partitions ahead will last at the current rate.
 *
 * @returns seconds; 0: rows go to the open-ended partition
 */
export function secondsAhead(table: PartitionedTable, state: TableState): number {
  if (state.lastKey === undefined) return Number.POSITIVE_INFINITY
  return Math.max(
    0,
    table.kind === 'number' ? numberAhead(table, state) : monthsAhead(table, state),
  )
}

function nextNumber(table: NumberedTable, state: TableState): Cut | undefined {
  const { days = 1, widthMin = WIDTH_MIN } = table
  const width = BigInt(Math.max(widthMin, Math.ceil(state.perDay * days)))
  const last = BigInt(state.lastKey ?? 0)
  const from = BigInt(state.restFrom ?? 0)
  if (state.restFrom !== undefined && from - last > width * BigInt(PARTITIONS_AHEAD))
    return undefined
  return { boundary: `${(from > last ? from : last) + width}`, suffix: `${from}` }
}

function numberAhead({ widthMin = WIDTH_MIN }: NumberedTable, state: TableState): number {
  const rows = Number(state.restFrom ?? widthMin) - Number(state.lastKey)
  return (rows / Math.max(1, state.perDay)) * DAY_SECONDS
}

function nextPeriod({ prefix }: TimedTable, state: TableState): Cut | undefined {
  const { restFrom = '', perDay, nowMs } = state
  if (restFrom >= firstIdAt(prefix, monthStart(nowMs, MONTHS_AHEAD))) return undefined
  const period = PERIODS.find((months) => perDay * MONTH_DAYS * months <= PERIOD_ROWS_MAX) ?? 1
  let months = 1
  let endMs = monthStart(nowMs, months)
  while (firstIdAt(prefix, endMs) <= restFrom || new Date(endMs).getUTCMonth() % period > 0) {
    months += 1
    endMs = monthStart(nowMs, months)
  }
  const last = new Date(monthStart(nowMs, months - 1))
  return {
    boundary: firstIdAt(prefix, endMs),
    suffix: last.toISOString().slice(0, 7).replace('-', '_'),
  }
}

function monthsAhead({ prefix }: TimedTable, state: TableState): number {
  const { restFrom, firstKey = '', nowMs } = state
  if (restFrom === undefined) {
    return firstKey >= firstIdAt(prefix, nowMs - NEW_MS) ? Number.POSITIVE_INFINITY : 0
  }
  let endMs = 0
  for (let months = 1; firstIdAt(prefix, monthStart(nowMs, months)) <= restFrom; months++) {
    endMs = monthStart(nowMs, months)
  }
  return (endMs - nowMs) / 1_000
}

/** The start of a month in UTC. @param months the number of months after the current one */
function monthStart(nowMs: number, months: number): number {
  const now = new Date(nowMs)
  return Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + months)
}
