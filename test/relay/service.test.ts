import { expect, onTestFinished, test } from 'vitest'
import { readConfig } from '../../src/config/config.ts'
import { checkRelay } from '../../src/doctor/check-relay.ts'
import { useDatabase } from '../support/database.ts'
import { writeEvents } from '../support/events.ts'
import { startInstance } from '../support/instance.ts'
import { hasNats, type NatsServer, openReader, startNats } from '../support/nats.ts'
import { waitFor } from '../support/wait-for.ts'
import { expectMirror, untilPublished, useReader } from './fixture.ts'

const db = useDatabase()
const STREAM = 'INFLOW_EVENTS_1'

async function useNats(...extra: string[]): Promise<NatsServer> {
  const server = await startNats(...extra)
  onTestFinished(() => server.stop())
  return server
}

const relayOf = (url: string) => readConfig({ RELAY_URL: url }).relay!

/** The findings of the doctor, one line each. */
async function examine(url: string): Promise<string[]> {
  const findings = await checkRelay(db.database.durablePool, relayOf(url), 90)
  return findings.map(({ level, found }) => `${level}: ${found}`)
}

test.skipIf(!hasNats)('two instances relay, unaffected by a server that is down', async () => {
  const server = await useNats()
  await server.kill()
  const { durablePool } = db.database
  const instances = await Promise.all(
    [1, 2].map(() => startInstance(db.url, { relay: relayOf(server.url) })),
  )
  onTestFinished(async () => void (await Promise.all(instances.map((each) => each.close()))))
  await writeEvents(durablePool, 50)
  const metricsOf = async (instance: number) =>
    (await fetch(`${instances[instance]!.httpUrl}/metrics`)).text()
  await waitFor(async () => expect(await metricsOf(0)).toContain('inflow_relay_up 0'))
  expect((await fetch(`${instances[0]!.httpUrl}/readyz`)).status).toBe(200)
  await server.restart()
  await waitFor(async () => {
    expect(await metricsOf(0)).toContain('inflow_relay_up 1')
    expect(await metricsOf(1)).toContain('inflow_relay_lag_rows 0')
  })
  await untilPublished(durablePool, server, STREAM)
  await expectMirror(durablePool, await useReader(server), STREAM)
})

test.skipIf(!hasNats)('signs in with the user of the URL, and no other', async () => {
  const server = await useNats('--user', 'relay', '--pass', 'p@ss')
  const url = server.url.replace('//', '//relay:p%40ss@')
  const instance = await startInstance(db.url, { relay: relayOf(url) })
  onTestFinished(() => instance.close())
  await waitFor(async () =>
    expect((await examine(url))[0]).toMatch(/^ok: the stream INFLOW_EVENTS_1 ends at position/),
  )
  expect((await examine(server.url))[0]).toMatch(
    /^fail: no NATS server of RELAY_URL accepts the connection: /,
  )
})

test.skipIf(!hasNats)('the doctor reports settings by which events would be lost', async () => {
  const server = await useNats()
  expect((await examine(server.url))[0]).toBe('warn: there is no stream yet')
  const instance = await startInstance(db.url, { relay: relayOf(server.url) })
  onTestFinished(() => instance.close())
  await waitFor(async () =>
    expect(await examine(server.url)).toEqual([
      expect.stringMatching(/^ok: the stream INFLOW_EVENTS_1 ends at position/),
      'warn: the stream has one replica: consumers wait while its server is down',
      expect.stringMatching(/^ok: NATS \S+ syncs every two minutes unless sync_interval is set/),
    ]),
  )
  const reader = await openReader(server)
  onTestFinished(() => reader.close())
  await reader.manager.streams.update(STREAM, { max_age: 3_600e9, max_msgs_per_subject: 5 })
  expect(await examine(server.url)).toEqual(
    expect.arrayContaining([
      'fail: the stream keeps a number of messages of each subject',
      'warn: the stream keeps messages for 1.0 hours, EVENT_RETENTION_DAYS is 90',
    ]),
  )
})
