import { expect, test } from 'vitest'
import { type ReplicaState, readPrimary, replicaFault } from '../../src/postgres/server-state.ts'
import { useDatabase } from '../support/database.ts'

const COMMITS = 200

const db = useDatabase(2)

test.each(['on', 'off'])(
  'every visible commit is before the position of the primary, with synchronous_commit %s',
  async (setting) => {
    const client = await db.database.durablePool.connect()
    try {
      await client.query(`set synchronous_commit = ${setting}`)
      await client.query(`create table note_${setting} (id int)`)
      for (let commit = 0; commit < COMMITS; commit++) {
        const { rows } = await client.query<{ bytes: string }>(
          `insert into note_${setting} values (1)
            returning pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0') as bytes`,
        )
        const { bytes } = await readPrimary(client, 5_000)
        expect(bytes).toBeGreaterThan(BigInt(rows[0]!.bytes))
      }
    } finally {
      client.release(true)
    }
  },
)

const PRIMARY = { bytes: 100n, timeline: 3, systemIdentifier: '7' }

/** A standby that is behind: that is no fault, as it may catch up. */
const STANDBY: ReplicaState = {
  isStandby: true,
  bytes: 90n,
  systemIdentifier: '7',
  checkpointTimeline: 3,
  loggedTimeline: 3,
}

const OTHER_HISTORY = 'it does not follow the primary on timeline 3'

test.each<[string, Partial<ReplicaState>, string | undefined]>([
  ['a standby of the primary', {}, undefined],
  ['a standby whose last checkpoint was before the failover', { checkpointTimeline: 2 }, undefined],
  ['a promoted standby', { isStandby: false }, 'it is not a standby'],
  ['a primary', { isStandby: false, bytes: null }, 'it is not a standby'],
  ['a standby of another cluster', { systemIdentifier: '8' }, 'it belongs to another cluster'],
  ['a standby that has not replayed the failover', { loggedTimeline: 2 }, OTHER_HISTORY],
  ['a standby of a server that was promoted later', { loggedTimeline: 4 }, OTHER_HISTORY],
  ['such a standby, of a server without a service', { checkpointTimeline: 4 }, OTHER_HISTORY],
  ['a standby without the schema', { loggedTimeline: null }, OTHER_HISTORY],
])('%s', (_, changed, fault) => {
  expect(replicaFault({ ...STANDBY, ...changed }, PRIMARY)).toBe(fault)
})
