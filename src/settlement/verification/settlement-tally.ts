import type { PoolClient } from 'pg'
import type { Discrepancy, SettlementSums } from '../../transactions/ledger/verify-transactions.ts'
import { findSettlementTotals, listSettlementTotals } from './store.ts'

/**
 * Compares settlements with the sums of their postings, which arrive in transaction order. A
 * settlement is compared and dropped as soon as its transaction count is reached, so that memory
 * holds only the settlements of one period and not all of them.
 */
export interface SettlementTally {
  /** Adds the posting sums of one page of transactions. @returns the discrepancies found */
  add(client: PoolClient, sums: readonly SettlementSums[]): Promise<Discrepancy[]>
  /** Compares the remaining settlements after the last page. @yields their discrepancies */
  finish(client: PoolClient): AsyncGenerator<Discrepancy[]>
  /** How many settlements are held in memory. */
  size(): number
}

const ROWS_MAX = 1_000

export function createSettlementTally(): SettlementTally {
  const partial = new Map<string, SettlementSums>()
  return {
    async add(client, sums) {
      for (const each of sums) {
        const known = partial.get(each.id)
        partial.set(each.id, known === undefined ? each : addSums(known, each))
      }
      const totals = await findSettlementTotals(
        client,
        sums.map(({ id }) => id),
      )
      return totals.flatMap((recorded) => {
        const posted = partial.get(recorded.id)
        if (posted === undefined || posted.count < recorded.count) return []
        partial.delete(recorded.id)
        return compare(recorded, posted)
      })
    },
    async *finish(client) {
      for (let after: string | undefined = ''; after !== undefined; ) {
        const rows: Awaited<ReturnType<typeof listSettlementTotals>> = await listSettlementTotals(
          client,
          after,
          ROWS_MAX,
        )
        yield rows.flatMap((recorded) => {
          const posted = partial.get(recorded.id)
          partial.delete(recorded.id)
          if (posted !== undefined) return compare(recorded, posted)
          return recorded.posted
            ? []
            : compare(recorded, { id: recorded.id, count: 0n, gross: 0n, fees: 0n })
        })
        after = rows.length < ROWS_MAX ? undefined : rows.at(-1)?.id
      }
      yield [...partial.keys()].map((subject) => {
        return { subject, problem: 'has postings, but the settlement does not exist' }
      })
    },
    size: () => partial.size,
  }
}

function addSums(a: SettlementSums, b: SettlementSums): SettlementSums {
  return { id: a.id, count: a.count + b.count, gross: a.gross + b.gross, fees: a.fees + b.fees }
}

function compare(recorded: SettlementSums, posted: SettlementSums): Discrepancy[] {
  const { id, count, gross, fees } = posted
  if (recorded.count === count && recorded.gross === gross && recorded.fees === fees) return []
  return [
    {
      subject: id,
      problem: `records ${describe(recorded)}; its postings add up to ${describe(posted)}`,
    },
  ]
}

function describe({ count, gross, fees }: SettlementSums): string {
  return `${count} transactions, gross ${gross}, fees ${fees}`
}
