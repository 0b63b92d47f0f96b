import { randomBytes } from 'node:crypto'
import { Client } from 'pg'
import { assert } from '../../core/errors.ts'
import { BackupError } from './backup.ts'

/** The server's side of a backup, from its start to its end. */
export interface BackupSession {
  /** The data folder, which may now be copied. */
  readonly cluster: string
  readonly serverVersion: string
  /** Ends the backup. */
  stop(): Promise<BackupEnd>
  /** Closes the connection, which gives up a backup that was not ended. */
  close(): Promise<void>
}

interface BackupEnd {
  /** The content of `backup_label`, without which a copy is not consistent. */
  readonly label: string
  readonly timeline: number
  readonly start: string
  readonly end: string
  /** The names of the segments of the log that the copy needs. */
  readonly segments: readonly string[]
}

interface Facts {
  cluster: string
  version: string
  segment_bytes: string
  standby: boolean
}

interface Stopped {
  label: string
  tablespaces: string
  end: string
  timeline: string
  last: string
}

const CONNECT_TIMEOUT_MS = 10_000

/**
 * Begins a backup by PostgreSQL's low-level API. A temporary replication slot keeps the log that is written
 * meanwhile; slot and backup end with the connection, so a killed backup leaves nothing.
 */
export async function beginBackup(url: string): Promise<BackupSession> {
  const client = new Client({
    connectionString: url,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    application_name: 'inflow backup',
    keepAlive: true,
  })
  // The statement in progress, or the next one, rejects.
  client.on('error', () => undefined)
  await client.connect()
  const close = () => client.end().catch(() => undefined)
  try {
    const facts = await readFacts(client)
    if (facts.standby) throw new BackupError('the database is a standby')
    const slot = `inflow_backup_${randomBytes(4).toString('hex')}`
    await client.query('select pg_create_physical_replication_slot($1, true, true)', [slot])
    // At once, by a checkpoint that does not spread its writes.
    await client.query("select pg_backup_start('inflow', true)")
    const { cluster, version: serverVersion } = facts
    return { cluster, serverVersion, stop: () => stop(client, facts), close }
  } catch (error) {
    await close()
    throw error
  }
}

async function readFacts(client: Client): Promise<Facts> {
  const { rows } = await client.query<Facts>(
    `select current_setting('data_directory') as cluster,
      current_setting('server_version') as version,
      (select setting from pg_settings where name = 'wal_segment_size') as segment_bytes,
      pg_is_in_recovery() as standby`,
  )
  const [row] = rows
  assert(row, 'settings are one row')
  return row
}

async function stop(client: Client, { segment_bytes }: Facts): Promise<BackupEnd> {
  const { rows } = await client.query<Stopped>(
    `select labelfile as label, spcmapfile as tablespaces, lsn::text as end,
      pg_walfile_name(lsn) as last
      from pg_backup_stop(wait_for_archive => false)`,
  )
  const [row] = rows
  assert(row, 'the end of a backup is one row')
  const { label, end, last } = row
  const [, start = '', first = ''] =
    /^START WAL LOCATION: (\S+) \(file (\w{24})\)$/m.exec(label) ?? []
  if (first === '' || first.slice(0, 8) !== last.slice(0, 8)) {
    throw new BackupError('the database was promoted during the backup: repeat it')
  }
  if (row.tablespaces.trim() !== '') throw new BackupError('tablespaces cannot be backed up')
  const timeline = Number.parseInt(first.slice(0, 8), 16)
  return {
    label,
    timeline,
    start,
    end,
    segments: segmentsBetween(first, last, Number(segment_bytes)),
  }
}

/** A name has three parts of eight hexadecimal digits: timeline, 4 GiB of log, segment in it. */
function segmentsBetween(first: string, last: string, segmentBytes: number): string[] {
  const perLog = 2 ** 32 / segmentBytes
  const numberOf = (name: string) =>
    Number.parseInt(name.slice(8, 16), 16) * perLog + Number.parseInt(name.slice(16), 16)
  const hex = (value: number) => value.toString(16).toUpperCase().padStart(8, '0')
  const names: string[] = []
  for (let number = numberOf(first); number <= numberOf(last); number++) {
    names.push(first.slice(0, 8) + hex(Math.floor(number / perLog)) + hex(number % perLog))
  }
  return names
}
