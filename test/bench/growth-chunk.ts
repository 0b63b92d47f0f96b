import { newId } from '../../src/core/ids.ts'
import type { GrowthSizes } from './seed-growth.ts'

/** How many transactions, and how many deliveries, one commit inserts. */
export const CHUNK = 25_000

/** Without years, payments are a second apart, or closer, so that all are from this time. The last is from now. */
const INTERVAL_MAX_MS = 1_000
const SPAN_MAX_MS = 30 * 86_400_000

const YEAR_MS = 365.25 * 86_400_000

/** Some consecutive transactions. Their ids are in the order of time, as all ids are. */
export interface Chunk {
  readonly from: number
  readonly to: number
  /** Ten characters of time. */
  readonly time: string
  /** When the first of them was paid. */
  readonly startMs: number
  readonly intervalMs: number
}

export function chunkOf(from: number, sizes: GrowthSizes, nowMs: number): Chunk {
  const { transactions, years = 0 } = sizes
  const to = Math.min(from + CHUNK - 1, transactions)
  const intervalMs =
    years > 0
      ? Math.floor((years * YEAR_MS) / transactions)
      : Math.min(INTERVAL_MAX_MS, Math.floor(SPAN_MAX_MS / transactions))
  const startMs = nowMs - (transactions - from + 1) * intervalMs
  const time = newId('txn', startMs).slice('txn_'.length, 'txn_'.length + 10)
  return { from, to, time, startMs, intervalMs }
}

/** The ids of a chunk's transactions, as a condition on a column. */
export const inChunk = (column: string) =>
  `${column} between 'txn_' || $1::text || lpad($2::bigint::text, 16, '0')
    and 'txn_' || $1 || lpad($3::bigint::text, 16, '0')`

export const idsOf = ({ time, from, to }: Chunk) => [time, from, to]
