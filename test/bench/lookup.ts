import { inTurn } from './in-turn.ts'
import { notes } from './notes.ts'
import { bareFastify, openTestServer, ourRest } from './rest.ts'
import type { Row } from './row.ts'
import { SEEDED_BUSINESS, seedAccounts, seedTransactions, transactionsOf } from './seed.ts'

export const lookup: Row = {
  name: 'lookup',
  async measure(bench) {
    const transactions = transactionsOf(bench)
    const databaseUrl = await bench.createDatabase()
    const door = await openTestServer(bench, databaseUrl)
    await seedAccounts(databaseUrl)
    await seedTransactions(databaseUrl, door.businessId, transactions)
    // The yardstick has the same rows in a database of its own, as a business it knows.
    const otherUrl = await bench.createDatabase()
    await seedAccounts(otherUrl)
    await seedTransactions(otherUrl, SEEDED_BUSINESS, transactions)
    const body = { kind: 'look-up', transactions } as const
    const bare = { route: 'look-up', databaseUrl: otherUrl } as const
    const figures = await inTurn(
      {
        ours: await ourRest(bench, door, 'getTransaction', body),
        bare: await bareFastify(bench, 'bare Fastify, one query', bare, body),
      },
      { ...bench, before: bench.checkpoint },
    )
    return [
      {
        name: 'lookup',
        what: 'REST getTransaction, 64 connections',
        unit: '/s',
        ours: figures.ours,
        yardstick: figures.bare,
        target: { atLeastTimes: 1.8 },
        notes: notes(figures.ours, figures.bare),
      },
    ]
  },
}
