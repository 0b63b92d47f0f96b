import type { PoolClient } from 'pg'
import {
  findSettlementTotals,
  listSettlementTotals,
  type SettlementSums,
} from '../verification/store.ts'
import type { Difference } from '../verification/verify-ledger.ts'

/**
 * Settlements against the sums of their postings, which come in the order of transactions. One is
 * compared and forgotten as soon as it has as many as it says: what is kept are those of a time, and
 * not those of all time.
 */
export interface SettlementTally {
  /** Adds what the postings of some transactions come to. @returns what is wrong so far */
  add(client: PoolClient, sums: readonly SettlementSums[]): Promise<Difference[]>
  /** After the last of them. @yields what is wrong beside that */
  finish(client: PoolClient): AsyncGenerator<Difference[]>
  /** How many are kept. */
  size(): number
}

const ROWS_MAX = 1_000

export function createSettlementTally(): SettlementTally {
  const open = new Map<string, SettlementSums>()
  return {
    async add(client, sums) {
      for (const each of sums) {
        const known = open.get(each.id)
        open.set(each.id, known === undefined ? each : plus(known, each))
      }
      const totals = await findSettlementTotals(
        client,
        sums.map(({ id }) => id),
      )
      return totals.flatMap((said) => {
        const posted = open.get(said.id)
        if (posted === undefined || posted.count < said.count) return []
        open.delete(said.id)
        return compare(said, posted)
      })
    },
    async *finish(client) {
      for (let after: string | undefined = ''; after !== undefined; ) {
        const rows: Awaited<ReturnType<typeof listSettlementTotals>> = await listSettlementTotals(
          client,
          after,
          ROWS_MAX,
        )
        yield rows.flatMap((said) => {
          const posted = open.get(said.id)
          open.delete(said.id)
          if (posted !== undefined) return compare(said, posted)
          return said.posted ? [] : compare(said, { id: said.id, count: 0n, gross: 0n, fees: 0n })
        })
        after = rows.length < ROWS_MAX ? undefined : rows.at(-1)?.id
      }
      yield [...open.keys()].map((subject) => {
        return { subject, problem: 'has postings, and there is no such settlement' }
      })
    },
    size: () => open.size,
  }
}

function plus(a: SettlementSums, b: SettlementSums): SettlementSums {
  return { id: a.id, count: a.count + b.count, gross: a.gross + b.gross, fees: a.fees + b.fees }
}

function compare(said: SettlementSums, posted: SettlementSums): Difference[] {
  const { id, count, gross, fees } = posted
  if (said.count === count && said.gross === gross && said.fees === fees) return []
  return [{ subject: id, problem: `says ${text(said)}; its postings are ${text(posted)}` }]
}

function text({ count, gross, fees }: SettlementSums): string {
  return `${count} transactions of ${gross} with fees of ${fees}`
}
