import { execFile } from 'node:child_process'
import { appendFile, copyFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Client } from 'pg'
import { afterAll, beforeAll, expect, onTestFinished } from 'vitest'
import { startEmbedded } from '../../src/postgres/embedded/embedded.ts'
import { query } from '../support/database.ts'
import { makeFolder } from '../support/folder.ts'
import { findPostgres, startPostgres } from '../support/postgres-server.ts'
import { waitFor } from '../support/wait-for.ts'

const run = promisify(execFile)

const SETTINGS = {
  wal_level: 'replica',
  max_wal_senders: '4',
  wal_keep_size: '256MB',
  hot_standby: 'on',
  shared_buffers: '128MB',
}

export interface Server {
  /** Of a superuser, database "inflow". */
  readonly url: string
  stop(): Promise<void>
}

/** A primary and an asynchronous standby, both on this machine. */
export interface Pair {
  readonly primary: Server
  readonly standby: Server
  /** Of the data of the primary, and of the standby. */
  readonly folder: string
  readonly standbyFolder: string
  /** Starts another standby of the primary. */
  addStandby(): Promise<Server>
  /** Resolves when the standby has replayed all that the primary has committed. */
  caughtUp(): Promise<void>
  /** Cuts the standby off from the primary: what is committed from now on is lost at a failover. */
  cutOff(): Promise<void>
  /** Connects the standby to the primary again. */
  reconnect(): Promise<void>
  /** Makes the standby a primary. */
  promote(): Promise<void>
}

/** Registers what ends something. */
export type AtEnd = (end: () => Promise<void>) => void

/** Starts a server on a folder, which it creates if absent. */
export async function startServer(
  folder: string,
  atEnd: AtEnd = onTestFinished,
  settings: Readonly<Record<string, string>> = SETTINGS,
): Promise<Server> {
  const bin = findPostgres()
  const server = bin
    ? await startPostgres({ bin, folder, settings })
    : await startEmbedded({ folder, settings })
  atEnd(server.stop)
  return server
}

/**
 * Starts a server in a new folder, which the test removes.
 *
 * @param like the folder of a server with the same password; absent: a new password
 */
export async function startPrimary(
  like?: string,
  atEnd: AtEnd = onTestFinished,
): Promise<{ server: Server; folder: string }> {
  const parent = await makeFolder('failover')
  atEnd(() => rm(parent, { recursive: true, force: true }))
  const folder = join(parent, 'primary')
  if (like !== undefined) await copyFile(`${like}.password`, `${folder}.password`)
  return { server: await startServer(folder, atEnd), folder }
}

/** Copies the data folder of a running server, as `pg_basebackup` does. */
export async function copyCluster(url: string, from: string, to: string): Promise<void> {
  const client = new Client({ connectionString: url })
  await client.connect()
  try {
    await client.query("select pg_backup_start('copy', true)")
    await copyFiles(from, to)
    const { rows } = await client.query('select labelfile from pg_backup_stop()')
    // The copy needs the log up to the end of the backup.
    await copyFiles(`${from}/pg_wal/.`, join(to, 'pg_wal'))
    await rm(join(to, 'postmaster.pid'), { force: true })
    await writeFile(join(to, 'backup_label'), rows[0].labelfile)
    await copyFile(`${from}.password`, `${to}.password`)
    await ownAlike(from, to, 'backup_label')
  } finally {
    await client.end()
  }
}

/** Copies the files of a running server. Those that it needs only for a moment may vanish meanwhile. */
async function copyFiles(from: string, to: string): Promise<void> {
  await run('cp', ['-a', from, to]).catch((error: { readonly stderr: string }) => {
    const faults = error.stderr.trimEnd().split('\n')
    if (!faults.every((fault) => fault.endsWith(': No such file or directory'))) throw error
  })
}

/** Gives a file of the copy to the owner of the cluster. */
export async function ownAlike(from: string, to: string, name: string): Promise<void> {
  await run('chown', ['--reference', from, join(to, name)])
}

function replicationUrl(primary: Server): string {
  return primary.url.replace(/\/[^/]*$/, '/postgres')
}

async function startStandby(
  primary: Server,
  folder: string,
  name: string,
  atEnd: AtEnd,
): Promise<Server> {
  const copy = `${folder}-${name}`
  await copyCluster(primary.url, folder, copy)
  const conninfo = `primary_conninfo = '${replicationUrl(primary)}'\n`
  await appendFile(join(copy, 'postgresql.auto.conf'), conninfo)
  await writeFile(join(copy, 'standby.signal'), '')
  await ownAlike(folder, copy, 'standby.signal')
  return startServer(copy, atEnd)
}

/** A pair for the tests of a file. */
export function usePair(): { readonly pair: Pair } {
  const ends: (() => Promise<void>)[] = []
  let pair: Pair
  beforeAll(async () => {
    pair = await startPair((end) => ends.unshift(end))
  })
  afterAll(async () => {
    for (const end of ends) await end()
  })
  return {
    get pair() {
      return pair
    },
  }
}

/** A pair for one test, unless `atEnd` says when it ends. */
export async function startPair(atEnd: AtEnd = onTestFinished): Promise<Pair> {
  const { server: primary, folder } = await startPrimary(undefined, atEnd)
  const from = replicationUrl(primary)
  const standby = await startStandby(primary, folder, 'standby', atEnd)
  return {
    primary,
    standby,
    folder,
    standbyFolder: `${folder}-standby`,
    addStandby: () => startStandby(primary, folder, 'second-standby', atEnd),
    async caughtUp() {
      const [row] = await query<{ lsn: string }>(
        primary.url,
        'select pg_current_wal_flush_lsn()::text as lsn',
      )
      await waitFor(async () => {
        const replayed = `select pg_last_wal_replay_lsn() >= '${row?.lsn}' as done`
        expect(await query(standby.url, replayed)).toEqual([{ done: true }])
      })
    },
    async cutOff() {
      await query(standby.url, "alter system set primary_conninfo = ''", 'select pg_reload_conf()')
      await waitFor(async () => {
        expect(await query(primary.url, 'select from pg_stat_replication')).toEqual([])
      })
    },
    async reconnect() {
      await query(
        standby.url,
        `alter system set primary_conninfo = '${from}'`,
        'select pg_reload_conf()',
      )
    },
    async promote() {
      await query(standby.url, 'select pg_promote()')
    },
  }
}

/** Uses up transaction ids, so that one cluster is ahead of another. */
export async function burnTransactionIds(url: string, count: number): Promise<void> {
  await query(
    url,
    `create procedure burn(times int) language plpgsql as $$
      begin for i in 1..times loop perform pg_current_xact_id(); commit; end loop; end $$`,
    `call burn(${count})`,
    'drop procedure burn',
  )
}

/** Copies all rows into another cluster that has the same schema, as a dump and its restore do. */
export async function copyRows(from: string, to: string): Promise<void> {
  const tables = await query<{ name: string }>(
    from,
    `select table_name as name from information_schema.tables
      where table_schema = 'public' and table_type = 'BASE TABLE' and table_name <> 'schema_migration'
        and table_name not in (select inhrelid::regclass::text from pg_inherits)`,
  )
  const client = new Client({ connectionString: to })
  await client.connect()
  try {
    // As pg_restore --disable-triggers does.
    await client.query('set session_replication_role = replica')
    for (const { name } of tables) {
      await client.query(`delete from "${name}"`)
      // As text, because JavaScript would round the largest numbers.
      const [row] = await query<{ rows: string | null }>(
        from,
        `select json_agg(t)::text as rows from "${name}" t`,
      )
      await client.query(
        `insert into "${name}" overriding system value
          select * from json_populate_recordset(null::"${name}", $1)`,
        [row?.rows ?? '[]'],
      )
    }
    await client.query(
      "select setval(pg_get_serial_sequence('outbox', 'seq'), coalesce(max(seq), 1)) from outbox",
    )
  } finally {
    await client.end()
  }
}
