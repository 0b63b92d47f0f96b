import { expect, onTestFinished, test } from 'vitest'
import { readLogState } from '../../src/events/log-state.ts'
import { expectMirror, untilPublished, useReader } from '../relay/fixture.ts'
import { useDatabase } from '../support/database.ts'
import { failOver, writeEvents } from '../support/events.ts'
import { hasNats, startNats } from '../support/nats.ts'
import { type ServiceProcess, startProcess } from '../support/process.ts'
import { generator, SEED } from '../support/random.ts'

const INSTANCES = 3
const EVENTS = Number(process.env['RELAY_EVENTS'] ?? 4_000)
const BATCH = 1_000
const KILLS = 3
const WAIT_MS = 240_000

const db = useDatabase()
const random = generator(SEED)
const pick = (count: number) => Math.floor(random() * count)

test.skipIf(!hasNats)(
  `${EVENTS} events, ${INSTANCES} relays, kills of both, a lost end and a failover: the streams equal the log`,
  async () => {
    const { durablePool } = db.database
    const server = await startNats()
    onTestFinished(() => server.stop())
    const start = () => startProcess({ DATABASE_URL: db.url, RELAY_URL: server.url })
    const instances: ServiceProcess[] = []
    onTestFinished(async () => void (await Promise.all(instances.map((each) => each.kill()))))
    instances.push(...(await Promise.all(Array.from({ length: INSTANCES }, start))))

    const write = async (count: number, events: () => Promise<void>): Promise<void> => {
      const batches = Math.ceil(count / BATCH)
      const faults = new Set(Array.from({ length: KILLS }, () => pick(batches)))
      for (let batch = 0; batch < batches; batch++) {
        await writeEvents(durablePool, Math.min(BATCH, count - batch * BATCH))
        if (faults.has(batch)) await events()
      }
    }
    const killRelay = async (): Promise<void> => {
      const victim = pick(INSTANCES)
      await instances[victim]!.kill()
      instances[victim] = await start()
    }
    let isSaved = false
    const killServer = async (): Promise<void> => {
      await server.kill()
      // Once it comes back without what it stored since the last time.
      if (isSaved) await server.restoreStore()
      else await server.saveStore()
      isSaved = true
      await server.restart()
    }
    await write(EVENTS / 2, () => (random() < 0.5 ? killRelay() : killServer()))
    await killServer()
    await killServer()
    await killRelay()
    await untilLogged(EVENTS / 2)
    await untilPublished(durablePool, server, 'INFLOW_EVENTS_1', WAIT_MS)
    const reader = await useReader(server)
    await expectMirror(durablePool, reader, 'INFLOW_EVENTS_1')
    await reader.close()

    const lost = await writeEvents(durablePool, 10)
    await untilLogged(EVENTS / 2 + 10)
    await untilPublished(durablePool, server, 'INFLOW_EVENTS_1', WAIT_MS)
    await failOver(durablePool, lost)
    await write(EVENTS / 2, killRelay)
    await untilLogged(EVENTS)
    await untilPublished(durablePool, server, 'INFLOW_EVENTS_2', WAIT_MS)
    const again = await useReader(server)
    await expectMirror(durablePool, again, 'INFLOW_EVENTS_2', BigInt(EVENTS / 2))
    const ended = await again.messages('INFLOW_EVENTS_1')
    expect(ended.slice(-10).map(({ header }) => header('Nats-Msg-Id'))).toEqual(lost)
  },
)

async function untilLogged(count: number): Promise<void> {
  const end = async () => Number((await readLogState(db.database.durablePool)).end.position)
  await expect.poll(end, { timeout: WAIT_MS, interval: 200 }).toBe(count)
}
