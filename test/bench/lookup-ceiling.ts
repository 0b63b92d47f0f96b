import { alternateRounds } from './alternate-rounds.ts'
import type { Benchmark } from './benchmark.ts'
import { detailNotes } from './detail-notes.ts'
import { bareFastify, inflowRest, openRestService, postOnce } from './rest-load.ts'
import { seedAccounts, seedTransactions, sessionIdOf, transactionsOf } from './seed.ts'

export const lookupCeiling: Benchmark = {
  name: 'lookup-ceiling',
  async measure(bench) {
    const transactions = transactionsOf(bench)
    const databaseUrl = await bench.createDatabase()
    const service = await openRestService(bench, databaseUrl)
    await seedAccounts(databaseUrl)
    await seedTransactions(databaseUrl, service.businessId, transactions)
    const body = { kind: 'look-up', transactions } as const
    const response = await postOnce(service, 'getTransaction', { session_id: sessionIdOf(1) })
    const figures = await alternateRounds(
      {
        ours: await inflowRest(bench, service, 'getTransaction', body),
        bare: await bareFastify(
          bench,
          'bare Fastify, constant',
          { route: 'constant', response },
          body,
        ),
      },
      { ...bench, before: bench.checkpoint },
    )
    return [
      {
        name: 'lookup-ceiling',
        what: 'REST getTransaction, 64 connections',
        unit: '/s',
        ours: figures.ours,
        yardstick: figures.bare,
        target: { atLeastTimes: 0.4 },
        notes: detailNotes(figures.ours, figures.bare),
      },
    ]
  },
}
