import { inTurn } from './in-turn.ts'
import { notes } from './notes.ts'
import { bareFastify, openTestServer, ourRest } from './rest.ts'
import type { Row } from './row.ts'
import { seedAccounts } from './seed.ts'

export const create: Row = {
  name: 'create',
  async measure(bench) {
    const databaseUrl = await bench.createDatabase()
    const door = await openTestServer(bench, databaseUrl)
    const otherUrl = await bench.createDatabase()
    await seedAccounts(otherUrl)
    const body = { kind: 'creation' } as const
    const bare = { route: 'insert', databaseUrl: otherUrl } as const
    const figures = await inTurn(
      {
        ours: await ourRest(bench, door, 'generateVirtualAccount', body),
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
        notes: notes(figures.ours, figures.bare),
      },
    ]
  },
}
