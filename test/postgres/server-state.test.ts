import { expect, test } from 'vitest'
import { readPrimary } from '../../src/postgres/replicas/server-state.ts'
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
