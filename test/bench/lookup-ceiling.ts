import { inTurn } from './in-turn.ts'
import { notes } from './notes.ts'
import { bareFastify, openTestServer, ourRest, postOnce } from './rest.ts'
import type { Row } from './row.ts'
import { seedAccounts, seedTransactions, sessionIdOf, transactionsOf } from './seed.ts'

export const lookupCeiling: Row = {
  name: 'lookup-ceiling',
  async measure(bench) {
    const transactions = transactionsOf(bench)
    const databaseUrl = await bench.createDatabase()
    const door = await openTestServer(bench, databaseUrl)
    await seedAccounts(databaseUrl)
    await seedTransactions(databaseUrl, door.businessId, transactions)
    const body = { kind: 'look-up', transactions } as const
    const answer = await postOnce(door, 'getTransaction', { session_id: sessionIdOf(1) })
    const figures = await inTurn(
      {
        ours: await ourRest(bench, door, 'getTransaction', body),
        bare: await bareFastify(
          bench,
          'bare Fastify, constant',
          { route: 'constant', answer },
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
        notes: notes(figures.ours, figures.bare),
      },
    ]
  },
}
