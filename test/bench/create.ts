import { alternateRounds } from './alternate-rounds.ts'
import type { Benchmark } from './benchmark.ts'
import { detailNotes } from './detail-notes.ts'
import { bareFastify, inflowRest, openRestService } from './rest-load.ts'
import { seedAccounts } from './seed.ts'

export const create: Benchmark = {
  name: 'create',
  async measure(bench) {
    const databaseUrl = await bench.createDatabase()
    const service = await openRestService(bench, databaseUrl)
    const otherUrl = await bench.createDatabase()
    await seedAccounts(otherUrl)
    const body = { kind: 'creation' } as const
    const bare = { route: 'insert', databaseUrl: otherUrl } as const
    const figures = await alternateRounds(
      {
        ours: await inflowRest(bench, service, 'generateVirtualAccount', body),
        bare: await bareFastify(bench, 'bare Fastify, one insert', bare, body),
      },
      { ...bench, before: bench.checkpoint },
    )
    return [
      {
        name: 'create',
        what: 'REST generateVirtualAccount, 64 connections',
        unit: '/s',
        ours: figures.ours,
        yardstick: figures.bare,
        target: { atLeastTimes: 0.8 },
        notes: detailNotes(figures.ours, figures.bare),
      },
    ]
  },
}
