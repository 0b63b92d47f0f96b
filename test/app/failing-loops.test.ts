import pino from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { systemClock } from '../../src/core/clock.ts'
import { watchLoops } from '../../src/core/loop.ts'
import { checkService } from '../../src/doctor/check-service.ts'
import { insertBusiness, payAt } from '../settlement/fixture.ts'
import { useDatabase } from '../support/database.ts'
import { startInstance } from '../support/instance.ts'
import { scrape } from '../support/scrape.ts'
import { waitFor } from '../support/wait-for.ts'

const db = useDatabase()

test('a loop that fails for a minute is a detail of /readyz, a metric and a finding of the doctor', async () => {
  let aheadMs = 0
  const clock = { now: () => systemClock.now() + aheadMs }
  const log = pino({ level: 'silent' })
  const failing = watchLoops(log, clock)
  onTestFinished(failing.stop)
  const instance = await startInstance(db.url, {}, log, clock)
  onTestFinished(instance.close)
  const { httpUrl, grpcUrl } = instance
  const ready = async () => {
    const response = await fetch(`${httpUrl}/readyz`)
    const { status, notes = [] } = (await response.json()) as { status: string; notes?: string[] }
    return { status, notes: notes.filter((note) => note.startsWith('background work')) }
  }
  const findings = async () => {
    const servers = { grpcUrl, httpUrl, opsUrl: httpUrl, tls: {} }
    return (await checkService(servers)).filter(({ level }) => level !== 'ok')
  }
  const { durablePool } = db.database
  await durablePool.query(
    `create function break_figures() returns trigger language plpgsql as $$
      begin raise exception 'broken'; end $$`,
  )
  await durablePool.query(
    'create trigger broken before insert on payment_hour execute function break_figures()',
  )
  const { accountNumber } = await insertBusiness(durablePool)
  await payAt(durablePool, accountNumber, 1, Date.now())
  await waitFor(() => expect([...failing.failingMs().keys()]).toEqual(['figures of payments']))
  await waitFor(async () => expect(await ready()).toEqual({ status: 'ready', notes: [] }))
  await waitFor(async () => expect(await findings()).toEqual([]))

  aheadMs = 61_000
  const note = /^background work has failed for \d+ s: figures of payments$/
  await waitFor(async () =>
    expect(await ready()).toEqual({ status: 'ready', notes: [expect.stringMatching(note)] }),
  )
  await waitFor(async () => {
    const { sum } = await scrape(httpUrl)
    expect(sum('inflow_loop_failing_seconds')).toBeGreaterThan(60)
  })
  await waitFor(async () => {
    const failed = { level: 'fail', found: expect.stringMatching(note) }
    expect(await findings()).toMatchObject([failed])
  })

  await durablePool.query('drop trigger broken on payment_hour')
  await waitFor(async () => expect(await ready()).toEqual({ status: 'ready', notes: [] }))
  await waitFor(async () => expect(await findings()).toEqual([]))
})
