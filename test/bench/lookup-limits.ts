import { alternateRounds } from './alternate-rounds.ts'
import type { Benchmark } from './benchmark.ts'
import { detailNotes } from './detail-notes.ts'
import { inflowRest, openRestService } from './rest-load.ts'
import { seedAccounts, seedTransactions } from './seed.ts'

const TRANSACTIONS = 100_000

/** Every limit, so high that no call is refused. */
const ON = { RATE_LIMIT_KEY: '1000000', RATE_LIMIT_ADDRESS: '1000000', RATE_LIMIT_FAILED: '10' }
const OFF = { RATE_LIMIT_KEY: 'off', RATE_LIMIT_ADDRESS: 'off', RATE_LIMIT_FAILED: 'off' }

/** The cost of rate limits for a lookup: the service with limits against itself without. */
export const lookupLimits: Benchmark = {
  name: 'lookup-limits',
  slow: true,
  async measure(bench) {
    const databaseUrl = await bench.createDatabase()
    const on = await openRestService(bench, databaseUrl, ON)
    const off = await openRestService(bench, databaseUrl, OFF)
    await seedAccounts(databaseUrl)
    await seedTransactions(databaseUrl, on.businessId, TRANSACTIONS)
    const body = { kind: 'look-up', transactions: TRANSACTIONS } as const
    // Both call as the business that has the transactions.
    const unlimited = { ...off, secretKey: on.secretKey }
    const figures = await alternateRounds(
      {
        ours: await inflowRest(bench, on, 'getTransaction', body),
        off: await inflowRest(bench, unlimited, 'getTransaction', body),
      },
      { ...bench, before: bench.checkpoint },
    )
    const yardstick = { ...figures.off, name: 'Inflow without limits' }
    return [
      {
        name: 'lookup-limits',
        what: 'REST getTransaction with rate limits, 64 connections',
        unit: '/s',
        ours: figures.ours,
        yardstick,
        target: { atLeastTimes: 0.9 },
        notes: detailNotes(figures.ours, yardstick),
      },
    ]
  },
}
