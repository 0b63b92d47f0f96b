import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { expect, onTestFinished, test } from 'vitest'
import { readConfig } from '../../src/config/config.ts'
import { checkRelay } from '../../src/doctor/check-relay.ts'
import { useDatabase } from '../support/database.ts'
import { startInstance } from '../support/instance.ts'
import { hasNats, startNats } from '../support/nats.ts'
import { waitFor } from '../support/wait-for.ts'

const db = useDatabase()
const relayOf = (url: string) => readConfig({ RELAY_URL: url }).relay!

/** The findings of the doctor, one line each. */
async function examine(url: string): Promise<string[]> {
  const findings = await checkRelay(db.database.durablePool, relayOf(url), 90)
  return findings.map(({ level, found }) => `${level}: ${found}`)
}

test.skipIf(!hasNats)(
  'relays once its server is up, signed in with the user of the URL',
  async () => {
    const server = await startNats('--user', 'relay', '--pass', 'p@ss')
    onTestFinished(() => server.stop())
    const url = server.url.replace('//', '//relay:p%40ss@')
    await waitFor(async () => expect((await examine(url))[0]).toBe('warn: there is no stream yet'))
    expect((await examine(server.url))[0]).toMatch(
      /^fail: no NATS server of RELAY_URL accepts the connection: /,
    )
    await server.kill()
    const instance = await startInstance(db.url, { relay: relayOf(url) })
    onTestFinished(() => instance.close())
    const metrics = async () => (await fetch(`${instance.httpUrl}/metrics`)).text()
    await waitFor(async () => expect(await metrics()).toContain('inflow_relay_up 0'))
    await waitFor(async () => expect((await fetch(`${instance.httpUrl}/readyz`)).status).toBe(200))
    await server.restart()
    await waitFor(async () => expect(await metrics()).toContain('inflow_relay_up 1'))

    // The doctor reports settings by which events would be lost.
    await waitFor(async () =>
      expect(await examine(url)).toEqual([
        expect.stringMatching(/^ok: the stream INFLOW_EVENTS_1 ends at position/),
        'warn: the stream has one replica: consumers wait while its server is down',
        expect.stringMatching(/^ok: NATS \S+ syncs every two minutes unless sync_interval is set/),
      ]),
    )
    const settings = {
      servers: server.address,
      user: 'relay',
      pass: 'p@ss',
      reconnect: false,
    }
    const connection = await connect(settings)
    onTestFinished(() => connection.close())
    const { streams } = await jetstreamManager(connection)
    await streams.update('INFLOW_EVENTS_1', { max_age: 3_600e9, max_msgs_per_subject: 5 })
    await waitFor(async () =>
      expect(await examine(url)).toEqual(
        expect.arrayContaining([
          'fail: the stream keeps a number of messages of each subject',
          'warn: the stream keeps messages for 1.0 hours, EVENT_RETENTION_DAYS is 90',
        ]),
      ),
    )
  },
)
