import { inTurn } from './in-turn.ts'
import { notes } from './notes.ts'
import { openTestServer, ourRest } from './rest.ts'
import type { Row } from './row.ts'
import { seedAccounts, seedTransactions } from './seed.ts'

const TRANSACTIONS = 100_000

/** Limits of everything, so high that they refuse nothing. */
const ON = { RATE_LIMIT_KEY: '1000000', RATE_LIMIT_ADDRESS: '1000000', RATE_LIMIT_FAILED: '10' }
const OFF = { RATE_LIMIT_KEY: 'off', RATE_LIMIT_ADDRESS: 'off', RATE_LIMIT_FAILED: 'off' }

/** What rate limits cost a look-up: the service with them against itself without. */
export const lookupLimits: Row = {
  name: 'lookup-limits',
  slow: true,
  async measure(bench) {
    const databaseUrl = await bench.createDatabase()
    const on = await openTestServer(bench, databaseUrl, ON)
    const off = await openTestServer(bench, databaseUrl, OFF)
    await seedAccounts(databaseUrl)
    await seedTransactions(databaseUrl, on.businessId, TRANSACTIONS)
    const body = { kind: 'look-up', transactions: TRANSACTIONS } as const
    // Both ask as the business that has the transactions.
    const unlimited = { ...off, secretKey: on.secretKey }
    const figures = await inTurn(
      {
        ours: await ourRest(bench, on, 'getTransaction', body),
        off: await ourRest(bench, unlimited, 'getTransaction', body),
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
        notes: notes(figures.ours, yardstick),
      },
    ]
  },
}
