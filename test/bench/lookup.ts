import { alternateRounds } from './alternate-rounds.ts'
import type { Benchmark } from './benchmark.ts'
import { detailNotes } from './detail-notes.ts'
import { bareFastify, inflowRest, openRestService } from './rest-load.ts'
import { SEEDED_BUSINESS, seedAccounts, seedTransactions, transactionsOf } from './seed.ts'

export const lookup: Benchmark = {
  name: 'lookup',
  async measure(bench) {
    const transactions = transactionsOf(bench)
    const databaseUrl = await bench.createDatabase()
    const service = await openRestService(bench, databaseUrl)
    await seedAccounts(databaseUrl)
    await seedTransactions(databaseUrl, service.businessId, transactions)
    // The yardstick has the same rows in a database of its own, for a business with a known id.
    const otherUrl = await bench.createDatabase()
    await seedAccounts(otherUrl)
    await seedTransactions(otherUrl, SEEDED_BUSINESS, transactions)
    const body = { kind: 'look-up', transactions } as const
    const bare = { route: 'look-up', databaseUrl: otherUrl } as const
    const figures = await alternateRounds(
      {
        ours: await inflowRest(bench, service, 'getTransaction', body),
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
        notes: detailNotes(figures.ours, figures.bare),
      },
    ]
  },
}
